//! The splitter compiled for this machine and the component write the same bytes.

use lro_host::sandbox::types::FileKind;
use lro_host::sandbox::{Limits, Verdict};
use lro_jsonl::{Document, FileReport, Options, Output, Section, Splitter, Stream, Target, survey};
use lro_tests::{always_full, call_of, default_policy, request, structured};
use tempfile::TempDir;

/// Random documents that are compared.
const DOCUMENTS: u64 = 1000;

/// What the policy uses at the level full with the default settings.
const INLINE_BYTES: usize = 512;
const INLINE_TOTAL: usize = 2048;

/// Files in memory, in the order in which they end.
#[derive(Default)]
struct Files {
    current: Vec<u8>,
    rest: Vec<u8>,
    ended: Vec<(Vec<u8>, u64)>,
}

impl Output for Files {
    type Error = std::convert::Infallible;

    fn begin(&mut self, _: Target<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Self::Error> {
        match stream {
            Stream::Current => self.current.extend_from_slice(bytes),
            Stream::Rest => self.rest.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), Self::Error> {
        let file = match stream {
            Stream::Current => std::mem::take(&mut self.current),
            Stream::Rest => std::mem::take(&mut self.rest),
        };
        self.ended.push((file, report.records));
        Ok(())
    }
}

/// Random, but the same each time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn space(&mut self) -> &'static str {
        ["", "", "", " ", "\n  ", "\t\r\n"][self.below(6) as usize]
    }

    fn string(&mut self) -> String {
        let pieces =
            ["a", "key", "é", "文", "\\n", "\\\"", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "/", "~", "\u{1f600}"];
        let length = self.below(6);
        (0..length).map(|_| pieces[self.below(pieces.len() as u64) as usize]).collect()
    }

    fn scalar(&mut self) -> String {
        match self.below(8) {
            0 => "null".to_owned(),
            1 => "true".to_owned(),
            2 => format!("-{}.0e+{}", self.below(100), self.below(400)),
            3 => format!("{}{}", 1 + self.below(9), self.below(u64::MAX)).repeat(2),
            4 | 5 => self.below(1000).to_string(),
            _ => format!("\"{}\"", self.string()),
        }
    }

    fn value(&mut self, depth: u64) -> String {
        match self.below(10) {
            0..4 if depth > 0 => self.object(depth - 1, 6),
            4..7 if depth > 0 => self.array(depth - 1, 6),
            _ => self.scalar(),
        }
    }

    fn object(&mut self, depth: u64, most: u64) -> String {
        let count = self.below(most);
        let member = |random: &mut Self| {
            let (space, key) = (random.space(), random.string());
            format!("{space}\"{key}\"{}:{}{}", random.space(), random.space(), random.value(depth))
        };
        format!("{{{}{}}}", (0..count).map(|_| member(self)).collect::<Vec<_>>().join(","), self.space())
    }

    fn array(&mut self, depth: u64, most: u64) -> String {
        let count = self.below(most);
        let element = |random: &mut Self| format!("{}{}{}", random.space(), random.value(depth), random.space());
        format!("[{}]", (0..count).map(|_| element(self)).collect::<Vec<_>>().join(","))
    }

    fn document(&mut self) -> String {
        match self.below(4) {
            0 => self.array(4, 400),
            1 => self.object(4, 60),
            2 => format!(r#"{{"a":{},"b":{},"c":{{"d":{}}}}}"#, self.array(3, 300), self.value(3), self.array(3, 300)),
            _ => format!(r#"{{"t":{},"s":"{}"}}"#, self.object(2, 200), self.string().repeat(200)),
        }
    }
}

fn native(document: &str, sections: Vec<Section>) -> (Document, Vec<(Vec<u8>, u64)>) {
    let options = Options {
        sections,
        inline_bytes: INLINE_BYTES,
        inline_total: INLINE_TOTAL,
        profile: true,
        ..Options::default()
    };
    let mut splitter = Splitter::new(options, Files::default());
    splitter.push(document).unwrap();
    let (found, files) = splitter.finish().unwrap();
    (found, files.ended)
}

#[test]
fn the_component_writes_what_the_native_splitter_writes() {
    let (policy, call, mut random) = (default_policy(), call_of(request(always_full())), Random(0x2545_F491_4F6C_DD1D));
    let (mut files, mut sections) = (0, 0);
    for number in 0..DOCUMENTS {
        let document = random.document();
        let payload = structured(document.clone());
        let (verdict, _) = policy.prepared().inspect(&Limits::default(), &call, &payload).unwrap();
        let Verdict::Offload(plan) = verdict else { panic!("{number}: {verdict:?}") };
        let directory = TempDir::new().unwrap();
        let (written, _) =
            policy.prepared().write(&Limits::default(), &call, &payload, &plan, directory.path()).unwrap();

        let found = survey(&document, true).unwrap();
        sections += found.len();
        let (kept, wanted) = native(&document, found);
        assert_eq!(written.descriptor.files.len(), wanted.len(), "{number}");
        for (file, (bytes, records)) in written.descriptor.files.iter().zip(&wanted) {
            let content = std::fs::read(directory.path().join(&file.name)).unwrap();
            let header = match file.kind {
                FileKind::Records => content.iter().position(|byte| *byte == b'\n').unwrap() + 1,
                _ => 0,
            };
            // A long string is written as its text.
            let text = (file.kind == FileKind::Text).then(|| serde_json::from_slice::<String>(bytes).unwrap());
            let bytes = text.as_deref().map_or(bytes.as_slice(), str::as_bytes);
            let same = content[header..].iter().zip(bytes).take_while(|(one, other)| one == other).count();
            if same < bytes.len().max(content.len() - header) {
                let near = |bytes: &[u8]| {
                    let bytes = bytes.get(same.saturating_sub(60)..(same + 60).min(bytes.len())).unwrap_or_default();
                    String::from_utf8_lossy(bytes).into_owned()
                };
                let (component, native) = (near(&content[header..]), near(bytes));
                panic!(
                    "{number}: {} from byte {same} on: {component}
native: {native}",
                    file.name
                );
            }
            assert!(header == 0 || file.records == *records, "{number}: {}", file.name);
        }
        for (_, json) in &kept.inline {
            assert!(written.descriptor.content.contains(json), "{number}: {json} is not inline");
        }
        files += wanted.len();
    }
    println!("{DOCUMENTS} documents, {sections} sections, {files} files");
    assert!(files > DOCUMENTS as usize / 2 && sections > DOCUMENTS as usize / 4, "{sections} sections, {files} files");
}
