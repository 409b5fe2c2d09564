#!/bin/sh
# Prepares a release; `make release VERSION=…` runs the checks between the two steps, and uploads nothing:
#     release.sh set VERSION      writes the version wherever it stands, and the date into the change log, and commits both
#     release.sh tag VERSION      tags the commit, and says what is left to do
set -eu

usage() {
    echo "usage: release.sh set|tag VERSION, such as 0.2.0 or 0.2.0-rc.1" >&2
    exit 2
}

fail() {
    echo "release: $*" >&2
    exit 1
}

[ $# -eq 2 ] || usage
step=$1 version=$2
printf '%s\n' "$version" | grep -Eqx '[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?' || usage
cd "$(dirname "$0")/../.."
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed: git status"
! git rev-parse --quiet --verify "refs/tags/v$version" > /dev/null || fail "the tag v$version exists"

# replace FILE PATTERN LINE: puts a line in the place of the first that a pattern matches
replace() {
    grep -q "$2" "$1" || fail "$1 has no line $2"
    awk -v pattern="$2" -v line="$3" '!done && $0 ~ pattern { $0 = line; done = 1 } { print }' "$1" > "$1.new"
    cat "$1.new" > "$1"
    rm "$1.new"
}

case $step in
    set)
        # An entry of the change log is a line that begins with a dash.
        awk '/^## / { section = $2 } section == "Unreleased" && /^- / { found = 1 } END { exit !found }' CHANGELOG.md ||
            fail 'CHANGELOG.md has nothing under "Unreleased"'
        replace Cargo.toml '^version = "' "version = \"$version\""
        replace guest/template/Cargo.toml '^version = "' "version = \"$version\""
        # Python writes 0.2.0-rc.1 as 0.2.0rc1.
        python=$(printf '%s\n' "$version" | sed -E 's/-(alpha|beta|rc)\.([0-9]+)$/\1\2/; s/alpha/a/; s/beta/b/')
        replace host-example/python/lro_filter/version.py '^__version__ = ' "__version__ = \"$python\""
        for manifest in host-example/node host-example/edge guest/javascript; do
            replace "$manifest/package.json" '^    "version": ' "    \"version\": \"$version\","
        done
        for manifest in compose.yaml kubernetes.yaml; do
            sed -i "s/lro-filter:[0-9][^ }]*/lro-filter:$version/" "host-example/dist/$manifest"
        done
        replace CHANGELOG.md '^## Unreleased$' "## Unreleased

## $version - $(date -u +%Y-%m-%d)"
        cargo update --quiet --workspace --offline
        git commit --quiet --all --message "Version $version"
        echo "release: the version is $version; to undo it: git reset --hard HEAD^"
        ;;
    tag)
        grep -q "^## $version - " CHANGELOG.md || fail "CHANGELOG.md has no version $version: release.sh set $version"
        git tag --annotate --message "Version $version" "v$version"
        echo "release: tagged v$version; the packages are in target/dist. Left to do by hand:
  git push origin HEAD v$version
  npm publish --access public FILE                for each .tgz of a platform, then for lro-filter-$version.tgz
  twine upload target/dist/*.whl
  cargo publish --workspace --manifest-path target/crates/workspace/Cargo.toml --allow-dirty
  make publish REGISTRY=HOST                      the contract and the components
  the other files, with SHA256SUMS, where RELEASE_URL says"
        ;;
    *) usage ;;
esac
