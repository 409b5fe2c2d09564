class LroFilter < Formula
  desc "Keeps large results of MCP tools out of a model's context"
  version "@version@"
  license "Apache-2.0"

@blocks@
  def install
    bin.install "bin/lro"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/lro"
    fish_completion.install "share/fish/vendor_completions.d/lro.fish"
    zsh_completion.install "share/zsh/site-functions/_lro"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lro --version")
  end
end
