//! What is recognized is read: mutated texts of every form.

mod support;

use lro_text::{Blanks, Form};
use proptest::prelude::*;
use serde_json::value::RawValue;
use support::{dice, form, read, slices};

const SEEDS: &[&str] = &[
    "id,name\n1,\"A, b\"\n2,x\n3,y\n",
    "id , name , place\n1 , \"A, b\" , x\n2 , x , y\n3 , y , z\n",
    "id; place\n1; x\n2; \"y; z\"\n",
    "id |name |place\n1 |x |y\n2 |\"y \"\"z\" |a\n",
    "sep=;\r\nid;name\r\n1;\"A; b\"\r\n2;x\r\n",
    "SEP=^\nid^name\n1^x, y\n",
    "1\tAda\tLondon\r\n2\tGrace\tNew York\r\n3\tLinus\tHelsinki\r\n",
    "{\"a\": 1}\n{\"a\": [2, {}]}\n",
    "Found 2:\n\n[{\"title\": \"Alien\", \"year\": 1979}]\n\n{\"title\": \"Aliens\"}\n",
    "```json\n{\"title\": \"Alien\", \"year\": 1979, \"stars\": [\"Weaver\", \"Hurt\"]}\n```\n",
    "| a | b |\n|---|:-:|\n| 1 | x\\|y |\n| 2 | |\n",
    " a | b \n---+---\n 1 | 2\n 3 | 4\n(2 rows)\n",
    "+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n| 3 | 4 |\n+---+---+\n",
    "NAME   AGE   IP\nweb    5d    \ndb     17m   10.0.0.1\n",
    "id  name\n--  -----\n1   Ada\n2   Grace\n",
    "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ x │\n│ 2 │   │\n└───┴───┘\n",
    " a = 1\nbc = x\n\n a = 2\nbc = \n\n a = 3\nbc = y\n",
    "a: 1\nbc: x\n\na: 2\nbc:\n\na: 3\nbc: y\n",
    "-[ RECORD 1 ]\na  | 1\nbc | x\n-[ RECORD 2 ]\na  | 2\nbc | \n",
    "<table border=1>\n<tr><th>a<th>b\n<tr><td>1<td>x &amp; y\n<tr><td>2<td>z</table>\n",
    "USER   PID COMMAND\nroot     1 /sbin/init a\nada   1234 sh\n",
    "[{'a': None, 'b': (1, 'it\\'s')}, {'a': \"x\", 'b': 1e+16}]",
    "- a: 1\n  b: |\n    x\n    y\n- a: \"z\\n\"\n  c:\n  - 1\n  - d: e\n",
    "<r>\n  <i k=\"1\">x &amp; y</i>\n  <i k=\"2\"><a/><a>1</a></i>\n  <i k=\"3\"><![CDATA[<z>]]></i>\n</r>\n",
];

const BYTES: &[u8] = b"\n\r\t ,;|\"'\\{}[]()<>-+:#&*a1.=/0";

fn mutated() -> impl Strategy<Value = String> {
    let mutation = (any::<proptest::sample::Index>(), 0..3, proptest::sample::select(BYTES));
    (proptest::sample::select(SEEDS), proptest::collection::vec(mutation, 0..4)).prop_map(|(seed, mutations)| {
        let mut bytes = seed.as_bytes().to_vec();
        for (index, kind, byte) in mutations {
            let index = index.index(bytes.len());
            match kind {
                0 => bytes.insert(index, byte),
                1 => bytes[index] = byte,
                _ => bytes.truncate(index.max(1)),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_recognized_is_read(text in mutated(), cuts in dice()) {
        let Some(form) = form(&text) else { return Ok(()) };
        let found = read(&form, slices(&text, &cuts));
        prop_assert!(found.is_ok(), "{:?}: {:?}", form, found);
        for line in found.iter().flat_map(|(lines, _)| lines.lines()) {
            prop_assert!(serde_json::from_str::<&RawValue>(line).is_ok(), "{:?}: {}", form, line);
        }
    }

    /// Every reader takes any text: it gives JSON, or an error that does not depend on the slices.
    #[test]
    fn every_reader_takes_any_text(text in mutated(), cuts in dice(), flag in any::<bool>()) {
        let blanks = Blanks { leading: flag, trailing: text.len() % 2 == 0 };
        let forms = [
            Form::JsonValues,
            Form::JsonWithin { start: 0, document: flag },
            Form::Delimited { delimiter: b',', header: flag, blanks: Blanks::default() },
            Form::Delimited { delimiter: b',', header: flag, blanks },
            Form::MarkdownTable,
            Form::RuledTable,
            Form::AlignedTable,
            Form::PaddedTable { columns: 3 },
            Form::KeyedBlocks { delimiter: b'=' },
            Form::KeyedBlocks { delimiter: b':' },
            Form::PythonLiteral { document: flag },
            Form::YamlList,
            Form::HtmlTable,
            Form::XmlElements { path: "r/i".into() },
        ];
        for form in forms {
            let whole = read(&form, [text.as_str()]);
            prop_assert_eq!(&whole, &read(&form, slices(&text, &cuts)), "{:?}", form);
            for line in whole.iter().flat_map(|(lines, _)| lines.lines()) {
                prop_assert!(serde_json::from_str::<&RawValue>(line).is_ok(), "{:?}: {}", form, line);
            }
        }
    }
}

/// Each seed has a form, so the properties are about something.
#[test]
fn seeds_are_recognized() {
    for seed in SEEDS {
        assert!(form(seed).is_some(), "{seed}");
    }
}
