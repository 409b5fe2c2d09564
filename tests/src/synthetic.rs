//! Deterministic synthetic tool results: records of about 207 bytes each, with integers, decimals, several alphabets,
//! escapes, nulls, a nested object and an array.

use std::fmt::Write;

const CATEGORIES: [&str; 12] =
    ["billing", "search", "auth", "storage", "network", "ui", "api", "export", "import", "mail", "report", "audit"];

/// Words, escaped for JSON.
const WORDS: [&str; 16] = [
    "invoice",
    "timeout",
    "Überprüfung",
    "東京",
    "naïve",
    "Привет",
    "retry",
    "cache",
    "naranja",
    "λόγος",
    "queue",
    "shard",
    "📦",
    "tab\\there",
    "quote\\\"d",
    "back\\\\slash",
];

const TAGS: [&str; 8] = ["red", "green", "blue", "p0", "p1", "eu", "us", "apac"];

/// A result with `records` records under `results`, as compact JSON.
pub fn payload(records: usize) -> String {
    let mut text = String::with_capacity(records * 210 + 128);
    let _ = write!(text, r#"{{"request_id":"req-{records}","query":"synthetic","total_count":{records},"results":["#);
    let mut random = Mt19937::new(20_251_120);
    for index in 0..records {
        if index > 0 {
            text.push(',');
        }
        record(&mut text, index, &mut random);
    }
    text.push_str("]}");
    text
}

/// The id of a record, by its number.
pub fn id(index: usize) -> usize {
    index * 7919 + 1_000_000
}

fn record(text: &mut String, index: usize, random: &mut Mt19937) {
    let [a, b, c, d, e] = std::array::from_fn(|_| random.next());
    let pick = |share: f64, of: usize| (share * of as f64) as usize;
    let _ = write!(text, r#"{{"id":{},"score":{},"#, id(index), rounded(a, 6));
    let _ = write!(text, r#""title":"{} {} {}","#, WORDS[pick(b, 16)], WORDS[pick(c, 16)], index % 997);
    let _ = write!(text, r#""category":"{}","active":{},"#, CATEGORIES[pick(d, 12)], e < 0.5);
    if index.is_multiple_of(11) {
        text.push_str(r#""note":null,"#);
    } else {
        let _ = write!(text, r#""note":"{}","#, "n".repeat(index % 23));
    }
    let _ = write!(text, r#""meta":{{"owner":"u{:05}","lat":{},"#, index % 5000, rounded(a * 180.0 - 90.0, 5));
    let _ = write!(text, r#""tags":["{}","{}"]}},"#, TAGS[pick(b, 8)], TAGS[pick(c, 8)]);
    let _ = write!(text, r#""created":{}}}"#, 1_700_000_000 + index * 13);
}

/// A number as Python's `json` writes it after `round`: the shortest text, with an exponent below 0.0001.
fn rounded(value: f64, digits: usize) -> String {
    let value: f64 = format!("{value:.digits$}").parse().expect("a number just written");
    if value != 0.0 && value.abs() < 1e-4 {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once("e-").expect("a small number has a negative exponent");
        return format!("{mantissa}e-{exponent:0>2}");
    }
    let text = value.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// The Mersenne Twister with Python's seeding and output.
struct Mt19937 {
    state: [u32; 624],
    next: usize,
}

impl Mt19937 {
    fn new(seed: u32) -> Self {
        let mut state = [0_u32; 624];
        state[0] = 19_650_218;
        for index in 1..624 {
            state[index] = mix(state[index - 1], 1_812_433_253).wrapping_add(index as u32);
        }
        let mut index = 1;
        for _ in 0..624 {
            state[index] = (state[index] ^ mix(state[index - 1], 1_664_525)).wrapping_add(seed);
            index = advance(&mut state, index);
        }
        for _ in 0..623 {
            state[index] = (state[index] ^ mix(state[index - 1], 1_566_083_941)).wrapping_sub(index as u32);
            index = advance(&mut state, index);
        }
        state[0] = 0x8000_0000;
        Self { state, next: 624 }
    }

    /// A number in [0, 1) with 53 random bits.
    fn next(&mut self) -> f64 {
        let (high, low) = (f64::from(self.word() >> 5), f64::from(self.word() >> 6));
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn word(&mut self) -> u32 {
        if self.next == 624 {
            for index in 0..624 {
                let joined = (self.state[index] & 0x8000_0000) | (self.state[(index + 1) % 624] & 0x7fff_ffff);
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[index] = self.state[(index + 397) % 624] ^ (joined >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }
}

fn mix(previous: u32, factor: u32) -> u32 {
    (previous ^ (previous >> 30)).wrapping_mul(factor)
}

fn advance(state: &mut [u32; 624], index: usize) -> usize {
    if index == 623 {
        state[0] = state[623];
        1
    } else {
        index + 1
    }
}
