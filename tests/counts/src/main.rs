//! Runs a hot path of the libraries that compile to WebAssembly, natively, so that its instructions can be counted:
//! `lro-counts PATH ROUNDS`. Without arguments it prints each path and its rounds. `tests/tools/counts.py` counts and compares.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program that may stop at the first surprise")]

mod paths;
#[expect(unreachable_pub, reason = "it is public in the library of the tests")]
#[path = "../../src/synthetic.rs"]
mod synthetic;

/// A path: its name, how often to run it, and a job that prepares its input and returns one round.
type Path = (&'static str, u32, fn() -> Box<dyn FnMut()>);

/// As many rounds as take several million instructions.
const PATHS: [Path; 9] = [
    ("scan", 4, paths::scan),
    ("take-apart", 4, paths::take_apart),
    ("unescape", 4, paths::unescape),
    ("sections", 4, paths::sections),
    ("profile", 2, paths::profile),
    ("indented", 2, paths::indented),
    ("redaction", 2, paths::redaction),
    ("question", 4, paths::question),
    ("jq", 1, paths::jq),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = &arguments[..] else {
        return PATHS.iter().for_each(|(name, rounds, _)| println!("{name} {rounds}"));
    };
    let (_, _, prepare) = PATHS.iter().find(|(path, ..)| path == name).expect("the name of a path");
    let mut round = prepare();
    (0..rounds.parse().expect("a number of rounds")).for_each(|_: u32| round());
}
