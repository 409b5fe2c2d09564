# Definitions of jq that the interpreter's standard library lacks or defines differently.

def ascii: [.] | implode;
def toarray: if type == "array" then . else [.] end;
def date: todate;
def dateadd(u; $n): . + $n;
def datesub(u; $n): . - $n;
def leaf_paths: paths(scalars);
def have_literal_numbers: true;
def have_decnum: false;
def finites: select(type == "number" and (isinfinite or isnan | not));

def flatten($depth): if $depth < 0 then error("flatten depth must not be negative")
  else [.[] | if type == "array" and $depth > 0 then flatten($depth - 1)[] else . end] end;

# A first group that takes no part is null, too.
def scan(re; flags): matches(re; "g" + flags)[] | [.[].string] | if length > 1 then .[1:] else .[0] end;
def scan(re): scan(re; "");

def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def INDEX(f): INDEX(.[]; f);
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);

# From the last to the first, so that no element moves before it is deleted; missing paths are skipped.
def delpaths($paths): without_($paths) // reduce ($paths | unique | reverse)[] as $path (.; . as $all | try (getpath($path) |= empty) catch $all);
def del(f): delpaths([path(f)]);

def from_entries: reduce .[] as $entry ({};
  . + { ($entry | if has("key") then .key elif has("k") then .k elif has("name") then .name else .Name // .K // .Key end
      | if type == "string" then . elif type == "null" then "null" else tojson end):
      ($entry | if has("value") then .value elif has("v") then .v else .Value end) });
def with_entries(f): to_entries | map(f) | from_entries;

# Also through missing values.
def setpath($path; $value):
  if $path == [] then $value
  else $path[0] as $step
    | if . == null then if $step | type == "string" then {} else [] end end
    | (try .[$step] catch null) as $old
    | if type == "array" and ($step | type == "number") and $step >= length then . + [range($step - length + 1) | null] end
    | .[$step] = ($old | setpath($path[1:]; $value)) end;

def join($separator): joined_($separator) // reduce .[] as $part (null;
  (if . == null then "" else . + $separator end)
  + ($part | if . == null then "" elif type == "number" or type == "boolean" then tojson else . end)) // "";

def _ltrimstr($prefix): ltrimstr($prefix);
def _rtrimstr($suffix): rtrimstr($suffix);
def ltrimstr($prefix): if type == "string" and ($prefix | type == "string") then _ltrimstr($prefix) end;
def rtrimstr($suffix): if type == "string" and ($suffix | type == "string") then _rtrimstr($suffix) end;
def trimstr($part): ltrimstr($part) | rtrimstr($part);

def tostream: path(def r: (.[]? | r), .; r) as $p
  | getpath($p)
  | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def fromstream(f): foreach f as $event ([null, false];
    (if .[1] then null else .[0] end) as $value
  | if $event | length == 2
    then [($value | setpath($event[0]; $event[1])), ($event[0] == [])]
    else [$value, ($event[0] | length == 1)] end;
  if .[1] then .[0] else empty end);
def truncate_stream(stream): . as $n | null | stream | . as $input
  | if (.[0] | length) > $n then setpath([0]; .[0][$n:]) else empty end;

def _row(cell; separator): if type == "array" then map(cell) | join(separator) else error("cannot be formatted, only an array can") end;
def @csv: csv_ // _row(if type == "string" then "\"" + gsub("\""; "\"\"") + "\""
    elif type == "null" then ""
    elif type == "array" or type == "object" then error("\(type) is not valid in a csv row")
    else tojson end; ",");
def @tsv: tsv_ // _row(if type == "string" then gsub("\\\\"; "\\\\") | gsub("\t"; "\\t") | gsub("\n"; "\\n") | gsub("\r"; "\\r")
    elif type == "null" then ""
    elif type == "array" or type == "object" then error("\(type) is not valid in a tsv row")
    else tojson end; "\t");
