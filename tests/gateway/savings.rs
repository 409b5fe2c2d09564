//! The page of what a model reads of recorded results, with the gateway and without it.

use std::fmt::Write as _;
use std::fs;

use lro_tests::{read, workspace};

use crate::ceiling::counted_by;

const PAGE: &str = "host-example/docs/reference/savings.md";
const PLOT: &str = "host-example/docs/reference/savings.svg";
const BEGIN: &str = "<!-- savings: begin -->\n";
const END: &str = "<!-- savings: end -->\n";

/// Set to anything, page and plot are written anew. Otherwise the page must have these kinds.
const WRITE: &str = "LRO_WRITE_SAVINGS";

const ENCODING: &str = "o200k_base";

/// What a model reads of one result.
pub(crate) struct Reading {
    pub(crate) kind: String,
    /// The texts of the result itself.
    pub(crate) result: String,
    /// The text of the descriptor in its place.
    pub(crate) descriptor: String,
    /// The texts of the answers.
    pub(crate) answers: Vec<String>,
}

/// Tokens of one result.
struct Tokens {
    kind: String,
    result: u64,
    descriptor: u64,
    answers: Vec<u64>,
}

impl Tokens {
    fn with_gateway(&self) -> u64 {
        self.descriptor + self.answers.iter().sum::<u64>()
    }

    /// Tenths of a percent.
    fn saved(&self) -> u64 {
        1_000 - (1_000 * self.with_gateway()).div_ceil(self.result.max(1)).min(1_000)
    }
}

/// Writes page and plot, or compares the kinds on the page.
pub(crate) fn savings(readings: Vec<Reading>) {
    let page = read(&workspace().join(PAGE));
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (rows, after) = rest.split_once(END).unwrap();
    if std::env::var_os(WRITE).is_none() {
        let listed: Vec<&str> =
            rows.lines().filter_map(|row| row.strip_prefix("| ")?.split(" |").next()).skip(1).collect();
        let kinds: Vec<&str> = readings.iter().map(|reading| reading.kind.as_str()).collect();
        assert_eq!(listed, kinds, "write {PAGE} with {WRITE}=1");
        return;
    }
    let all = counted(readings);
    fs::write(workspace().join(PAGE), [before, BEGIN, &table(&all), END, after].concat()).unwrap();
    fs::write(workspace().join(PLOT), plot(&all)).unwrap();
}

fn counted(readings: Vec<Reading>) -> Vec<Tokens> {
    let texts: Vec<String> = readings
        .iter()
        .flat_map(|reading| [&reading.result, &reading.descriptor].into_iter().chain(&reading.answers).cloned())
        .collect();
    let mut counts = counted_by(&[ENCODING], &texts).into_iter();
    let mut of = |reading: Reading| {
        let mut next = || counts.next().unwrap();
        let (result, descriptor) = (next(), next());
        Tokens { kind: reading.kind, result, descriptor, answers: reading.answers.iter().map(|_| next()).collect() }
    };
    readings.into_iter().map(&mut of).collect()
}

fn table(all: &[Tokens]) -> String {
    let mut table = String::from("| kind of result | tokens | descriptor | answers | saved |\n|---|--:|--:|--:|--:|\n");
    for tokens in all {
        let Tokens { kind, result, descriptor, answers } = tokens;
        let answers: Vec<String> = answers.iter().map(u64::to_string).collect();
        let (saved, tenths) = (tokens.saved() / 10, tokens.saved() % 10);
        let answers = answers.join(" + ");
        writeln!(table, "| {kind} | {result} | {descriptor} | {answers} | {saved}.{tenths} % |").unwrap();
    }
    let mut saved: Vec<u64> = all.iter().map(Tokens::saved).collect();
    saved.sort_unstable();
    let (result, with): (u64, u64) =
        all.iter().fold((0, 0), |(result, with), one| (result + one.result, with + one.with_gateway()));
    let (least, median) = (saved[0], saved[saved.len() / 2]);
    let questions: usize = all.iter().map(|tokens| tokens.answers.len()).sum();
    writeln!(
        table,
        "\n{} results of {result} tokens, and {questions} questions, each answered by one call: {with} tokens. Saved of a result: \
         {}.{} % in the middle, {}.{} % at the least.",
        all.len(),
        median / 10,
        median % 10,
        least / 10,
        least % 10,
    )
    .unwrap();
    table
}

/// Two bars a result, on a logarithmic scale.
fn plot(all: &[Tokens]) -> String {
    const LEFT: f64 = 330.0;
    const DECADE: f64 = 90.0;
    const ROW: f64 = 20.0;
    const TOP: f64 = 48.0;
    const DECADES: u32 = 6;
    let x = |tokens: u64| LEFT + (tokens.max(1) as f64).log10() * DECADE;
    let bottom = TOP + ROW * all.len() as f64;
    let right = LEFT + f64::from(DECADES) * DECADE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <title>Tokens of each result, and of its descriptor with the answers to three questions</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <rect x=\"{LEFT}\" y=\"12\" width=\"12\" height=\"10\" fill=\"#b9c2cc\"/><text x=\"{}\" y=\"21\">the result</text>\n\
         <rect x=\"{}\" y=\"12\" width=\"12\" height=\"10\" fill=\"#0b6e4f\"/>\
         <text x=\"{}\" y=\"21\">descriptor and three answers</text>\n",
        right + 40.0,
        bottom + 12.0,
        LEFT + 18.0,
        LEFT + 110.0,
        LEFT + 128.0,
    );
    for decade in 0..=DECADES {
        let at = LEFT + f64::from(decade) * DECADE;
        let label = 10_u64.pow(decade);
        writeln!(
            svg,
            "<line x1=\"{at}\" y1=\"{}\" x2=\"{at}\" y2=\"{bottom}\" stroke=\"#e3e7eb\"/>\
             <text x=\"{at}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
            TOP - 4.0,
            TOP - 8.0,
        )
        .unwrap();
    }
    for (row, tokens) in all.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let label = tokens.kind.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"7\" fill=\"#b9c2cc\"/>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"7\" fill=\"#0b6e4f\"/>",
            LEFT - 8.0,
            y + 13.0,
            y + 2.0,
            x(tokens.result) - LEFT,
            y + 10.0,
            x(tokens.with_gateway()) - LEFT,
        )
        .unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}
