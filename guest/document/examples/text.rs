//! Prints the text of a document: `text FILE`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: text FILE")?;
    let extracted = lro_document::extract(&std::fs::read(path)?, 64 << 20)?;
    print!("{}", extracted.text);
    Ok(())
}
