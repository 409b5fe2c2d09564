//! Values of secret fields in texts that are not JSON: exactly the value is replaced, wherever the slices end.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use lro_redact::{MATCH_BYTES_MAX, Redactor, Rules};
use proptest::prelude::*;
use proptest::sample::select;

/// Marks in the expected texts where a secret was.
const MARK: &str = "[redacted]";

fn redact(text: &str, is_json: bool, slice: usize) -> String {
    let rules = Rules::default();
    let (mut redactor, mut out, mut rest) = (Redactor::new(&rules, is_json), String::new(), text);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(slice.min(rest.len())));
        redactor.push(piece, &mut out);
        rest = after;
    }
    redactor.finish(&mut out);
    out
}

/// The text, alone and as a string of JSON, in slices of every length, becomes the wanted one.
fn becomes(text: &str, wanted: &str) {
    let quoted = (serde_json::to_string(text).unwrap(), serde_json::to_string(wanted).unwrap());
    for slice in (1..70).chain([usize::MAX]) {
        assert_eq!(redact(text, false, slice), wanted, "in slices of {slice}");
        assert_eq!(redact(&quoted.0, true, slice), quoted.1, "in slices of {slice}");
    }
}

/// What stands between `«` and `»` is a secret.
fn secrets_go(text: &str) {
    let (mut whole, mut wanted) = (String::new(), String::new());
    for piece in text.split_inclusive(['«', '»']) {
        let plain = piece.trim_end_matches(['«', '»']);
        whole.push_str(plain);
        wanted.push_str(if piece.ends_with('»') { MARK } else { plain });
    }
    becomes(&whole, &wanted);
}

#[test]
fn delimited_cells() {
    secrets_go("id,user,password,note\n1,ada,«hunter2»,x\n2,\"bob, jr\",\"«a \"\"b\"\",\nc»\",\"y\"\r\n3,cy,,z\n");
    secrets_go("user\tAPI-Key\nada\t«k1»\r\nbob\t«k 2»");
    secrets_go("\u{feff}token;user\n«a,b»;ada\n«c»;bob\n");
    secrets_go("\nname,\"secret\"\nada,«x»\nragged\nbob,«y»,more\n");
    // Quotes behind spaces count where spaces stand behind all delimiters of the header.
    secrets_go("user, password, note\nada, \"«a, b»\", \"x, y\"\nbob,   «c», d\n\"e, f\" , \"«\"\"»\" , g\n");
    secrets_go("user ; token\nada ; «a, b» \nbob ; \"«c; d»\" \n");
    // The header stands below a line that names the delimiter, which may be any.
    secrets_go("\u{feff}sep=;\r\nuser;password\r\nada;«a,b»\r\n\"b;c\";\"«d;e»\"\r\n");
    secrets_go("sep=:\nuser:password\nada:«a, b»\n");
    secrets_go("SEP=\t\ntoken\tuser\n«a»\tada\n");
    // A first line that is a sentence names no columns.
    let prose = "A password, once leaked, is a token of trust lost for good, and no secret any more, as everyone knows by now.\na, b, c\n";
    becomes(prose, prose);
}

#[test]
fn tables() {
    secrets_go(
        "# Users\n\n| user | password |\n|------|:--------:|\n| ada | «hunter2» |\n| b\\|b | «x» |\n\nafter | that\n",
    );
    secrets_go("user | token\n---|---\nada | «t 1»\n");
    becomes(
        " user |  password   | age\n------+-------------+-----\n ada  | hunter2     |  36\n b|b  | a           |  40\n(2 rows)\n",
        " user |  password   | age\n------+-------------+-----\n ada  | [redacted]  |  36\n b|b  | [redacted]  |  40\n(2 rows)\n",
    );
    becomes(
        "+------+-------+\n| user | token |\n+------+-------+\n| ada  | x     |\n| bob  | yyyyy |\n+------+-------+\n",
        "+------+-------+\n| user | token |\n+------+-------+\n| ada  |[redact|\n| bob  |[redact|\n+------+-------+\n",
    );
    becomes(
        "NAME   PASSWORD       AGE\nada    hunter2        36\nbob    a-much-longer-one   40\n",
        "NAME   PASSWORD       AGE\nada    [redacted]     36\nbob    [redacted]          40\n",
    );
    becomes("user  password\n----  --------\nada   hunter2\n", "user  password\n----  --------\nada   [redacted]\n");
}

#[test]
fn padded_words_and_blocks() {
    becomes(
        "USER   PASSWORD AGE COMMAND\nroot hunter2222  36 login -x y\nbob     abc       4 sh\nada   xyz1234    90 cat a b\n",
        "USER   PASSWORD AGE COMMAND\nroot [redacted]  36 login -x y\nbob     [re       4 sh\nada   [redact    90 cat a b\n",
    );
    let prose = "USER token found\nno words are put below a name here\nand so this is a text\n";
    becomes(prose, prose);
    secrets_go(
        "-[ RECORD 1 ]------\nuser     | ada\npassword | «hunter2»\n-[ RECORD 2 ]------\nuser     | bob | x\npassword | «a | b+»\n         | «c»\n\npassword | x\n",
    );
    secrets_go("   user = ada\npassword = «x y»\n\n   user = bob\npassword = «z»\n");
    secrets_go(
        "*** 1. row ***\n    user: ada\npassword: «x y»\n".replace("password: «x y»", "password: \"«x y»\"").as_str(),
    );
}

#[test]
fn names_and_values() {
    secrets_go("2026-05-01T10:00:00Z INFO login user=bob password=«hunter2» ip=10.0.0.1\n");
    secrets_go("export API_KEY=«a b»\nPASSWORD='«p q»'\nTOKEN=\"«x \\\" y»\" # comment\nPORT=80\n");
    secrets_go("token=«a b c» user=bob\nGET /x?token=«abc»&y=1 HTTP/1.1\n");
    becomes("Authorization: Bearer x y\n", "Authorization: \"[redacted]\"\n");
    secrets_go("curl -H 'Authorization: «Bearer abc»' https://a.example --password=«x1»\n");
    secrets_go("{'user': 'bob', 'password': '«it\\'s»', 'n': 1}\nSaid: {\"token\": \"«a\\\"b»\", \"b\": 2}\n");
    secrets_go("<user><name>bob</name><password kind=\"x\">«hunter2»</password><a token=\"«y»\"/></user>\n");
    becomes(
        "Result: {\"token\": 12, \"secret\": {\"a\": [1, \"}\"]}, \"b\": 1}",
        "Result: {\"token\": \"[redacted]\", \"secret\": \"[redacted]\", \"b\": 1}",
    );
    becomes(
        "- name: ada\n  password: hunter2\n  secret: |\n    line 1\n\n    line 2\n  token:\n    old: x\n    new: y\n  age: 36\n",
        "- name: ada\n  password: \"[redacted]\"\n  secret: |\n    [redacted]\n  token:\n    [redacted]\n  age: 36\n",
    );
    becomes("log \\\"password\\\":\\\"x y\\\",\\\"b\\\":1", "log \\\"password\\\":\\\"[redacted]\\\",\\\"b\\\":1");
}

#[test]
fn what_only_resembles_a_name_stays() {
    for text in [
        "max_token=3 tokens: 4 passwordless=yes a.password_hint: x\n",
        "The password is wrong, and the token has expired.\n",
        "Secret\n======\n\nNo value here.\n",
        "password:\n\nnext: paragraph\n",
        "| user | age |\n|---|---|\n| password | 3 |\n",
        "<tokens>1</tokens><password/><a>password</a>",
    ] {
        becomes(text, text);
    }
}

/// Rows across the boundaries at which a long text is decided.
#[test]
fn long_tables() {
    for (header, row) in
        [("user,password,note\n", "ada,«secret-value»,lorem ipsum\n"), ("", "a=1 password=«secret-value» b=2\n")]
    {
        let rows = row.repeat(4 * MATCH_BYTES_MAX / row.len());
        let text = format!("{header}{rows}").replace(['«', '»'], "");
        let wanted = format!("{header}{}", rows.replace("«secret-value»", MARK));
        let quoted = (serde_json::to_string(&text).unwrap(), serde_json::to_string(&wanted).unwrap());
        for slice in [997, 5000, MATCH_BYTES_MAX, 1 << 20] {
            assert!(redact(&text, false, slice) == wanted, "{slice}");
            assert!(redact(&quoted.0, true, slice) == quoted.1, "{slice}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A cell of the column and nothing else is replaced, whatever the cells are.
    #[test]
    fn cells_of_a_column(
        rows in prop::collection::vec(prop::collection::vec("[a-z ,;\"\n]{0,12}[a-z]", 4), 1..12),
        delimiter in select(vec![',', ';', '\t']), column in 0_usize..4, slice in 1_usize..60, quotes: bool,
    ) {
        let csv = |cell: &str| match quotes || cell.contains([',', ';', '"', '\n', ' ']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.to_owned(),
        };
        let names = ["id", "name", "note", "kind"].map(str::to_owned);
        let line = |mut cells: Vec<String>, with: Option<String>| {
            if let Some(with) = with { cells[column] = with; }
            cells.join(&delimiter.to_string()) + "\n"
        };
        let (mut text, mut wanted) = (String::new(), String::new());
        text.push_str(&line(names.to_vec(), Some("password".to_owned())));
        wanted.push_str(&text);
        for row in rows {
            let cells: Vec<String> = row.iter().map(|cell| csv(cell)).collect();
            let redacted = if cells[column].starts_with('"') { format!("\"{MARK}\"") } else { MARK.to_owned() };
            text.push_str(&line(cells.clone(), None));
            wanted.push_str(&line(cells, Some(redacted)));
        }
        prop_assert_eq!(&redact(&text, false, slice), &wanted, "{}", text);
    }

    /// For any text, slices do not matter, nor whether it is a string of JSON.
    #[test]
    fn slices_make_no_difference(
        text in "([ ,:=|<>\n\"'\\\\a-c.-]|password|token: |user,token\n|---\\|---|\n  |sk-|bob@ex.com|Bearer |\\{|\\}|\\[){0,60}",
        slice in 1_usize..50,
    ) {
        prop_assert_eq!(redact(&text, false, slice), redact(&text, false, usize::MAX));
        let quoted = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(&redact(&quoted, true, slice), &redact(&quoted, true, usize::MAX));
        let unquoted: String = serde_json::from_str(&redact(&quoted, true, slice)).unwrap();
        prop_assert_eq!(unquoted, redact(&text, false, slice), "{}", text);
    }
}
