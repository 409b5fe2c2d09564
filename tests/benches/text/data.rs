//! Texts to measure with, the same in every run.

use std::fmt::Write;

/// A text that few lines have.
pub(crate) const NEEDLE: &str = "gateway timeout from warsaw-7";
/// The same in other letters.
pub(crate) const NEEDLE_SHOUTED: &str = "GATEWAY Timeout From WARSAW-7";

const CITIES: [&str; 8] = ["lagos", "quito", "osaka", "turin", "perth", "izmir", "lyon", "warsaw"];

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words.get(self.below(words.len() as u64) as usize).copied().unwrap_or_default()
    }
}

/// The log of a server, about 127 bytes a line.
pub(crate) fn log(lines: usize) -> String {
    let mut random = Random(1);
    let mut log = String::new();
    for number in 0..lines {
        let (seconds, millis) = (number / 1_000, number % 1_000);
        let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
        write!(log, "2026-11-20T{hours:02}:{minutes:02}:{:02}.{millis:03}Z ", seconds % 60).unwrap();
        let (city, node) = (random.one_of(&CITIES), random.below(10));
        let (size, took) = (random.below(1_000_000), random.below(1_000));
        let level = if random.below(50) == 0 { "ERROR" } else { "INFO " };
        write!(log, "{level} {city}-{node} request={:016x} GET /v1/orders/{size} ", random.next()).unwrap();
        match random.below(20_000) {
            0 => writeln!(log, "{NEEDLE} after {took} ms").unwrap(),
            1 => writeln!(log, "payment refused by the bank of {city}").unwrap(),
            _ => writeln!(log, "answered in {took} ms out of {}, {size} bytes", random.below(1_000)).unwrap(),
        }
    }
    log
}

/// Tables as CSV with this many rows: of words, of numbers, of quoted texts.
pub(crate) fn tables(rows: usize) -> [(&'static str, String); 3] {
    let mut random = Random(2);
    let mut plain = String::from("id,city,carrier,state,comment\n");
    let mut numeric = String::from("id,latitude,longitude,altitude,count,ratio\n");
    let mut quoted = String::from("id,title,body,city\n");
    for id in 0..rows {
        let (city, other) = (random.one_of(&CITIES), random.one_of(&CITIES));
        writeln!(plain, "row-{id},{city},{other} air,open,from {city} to {other} without a stop").unwrap();
        let (latitude, count) = (random.below(180_000), random.below(1_000));
        let (degrees, rest) = (latitude / 1_000, latitude % 1_000);
        writeln!(numeric, "{id},{degrees}.{rest:03}1,-{degrees}.{rest:03}2,{latitude},{count},0.{rest:03}5").unwrap();
        writeln!(quoted, "{id},\"{city}, {other}\",\"said \"\"{other}\"\",\nand left for {city}\",{city}").unwrap();
    }
    [("plain", plain), ("numeric", numeric), ("quoted", quoted)]
}
