//! What of Markdown the tests look at: fenced blocks, links, headings.

/// A fenced block.
pub(crate) struct Block {
    /// Number of the line with the fence.
    pub(crate) line: usize,
    /// What stands behind the opening fence.
    pub(crate) info: String,
    /// The line before the fence.
    pub(crate) before: String,
    /// What is between the fences, each line with its line feed.
    pub(crate) text: String,
}

/// All fenced blocks of a document.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut before = "";
    let mut lines = document.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let text = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```");
            let text = text.map(|line| format!("{line}\n")).collect();
            found.push(Block { line: number, info: info.to_owned(), before: before.to_owned(), text });
        }
        before = line;
    }
    found
}

/// The targets of the links outside of fenced blocks and inline code.
pub(crate) fn links(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in document.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| target.to_owned()));
        }
    }
    found
}

/// The anchor of a heading, as it is made on GitHub.
pub(crate) fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}
