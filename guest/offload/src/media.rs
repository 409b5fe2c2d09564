//! The media type of bytes, from the bytes themselves, where the result does not say it.

use crate::Part;
use crate::images::little;

/// Media type of bytes of which nothing is known.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Bytes at the beginning of a part in which the members of an archive are looked for: 64 KiB.
const ARCHIVE_BYTES_MAX: usize = 64 * 1024;

/// What a file of each type begins with.
const BEGINNINGS: [(&[u8], &str); 13] = [
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
    // Word, Excel and PowerPoint before 2007.
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\0asm", "application/wasm"),
];

/// What the name of a member of each archive begins with.
const MEMBERS: [(&[u8], &str); 4] = [
    (b"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    (b"META-INF/MANIFEST.MF", "application/java-archive"),
];

/// What the header of a member of an archive begins with, and where it has the flags, the size of the content, the lengths of
/// the name and of what follows it, and the name.
const MEMBER: &[u8] = b"PK\x03\x04";
const FLAGS_AT: usize = 6;
const SIZE_AT: usize = 18;
const NAME_LENGTH_AT: usize = 26;
const EXTRA_LENGTH_AT: usize = 28;
const NAME_AT: usize = 30;

/// The flag of a member whose size stands behind its content.
const SIZE_IS_BEHIND: u32 = 1 << 3;

/// The extension of the files of each type.
const EXTENSIONS: [(&str, &str); 19] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/ogg", "ogg"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("application/x-7z-compressed", "7z"),
    ("application/vnd.sqlite3", "sqlite"),
    ("application/vnd.apache.parquet", "parquet"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/java-archive", "jar"),
    ("application/wasm", "wasm"),
];

/// The media type of a binary part: what the result says, or what its first bytes show.
pub(crate) fn media_type(part: &Part, beginning: &[u8]) -> String {
    let said = part.media_type.as_deref().filter(|said| !said.eq_ignore_ascii_case(UNKNOWN));
    said.or_else(|| of_bytes(beginning)).unwrap_or(UNKNOWN).to_owned()
}

/// The extension of files of a media type.
pub(crate) fn extension(media_type: &str) -> &'static str {
    EXTENSIONS.iter().find(|(known, _)| *known == media_type).map_or("bin", |(_, extension)| extension)
}

/// The media type that the first bytes show.
pub(crate) fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("audio/wav"),
        _ if bytes.starts_with(MEMBER) => Some(archive(bytes.get(..ARCHIVE_BYTES_MAX).unwrap_or(bytes))),
        _ => BEGINNINGS.iter().find(|(beginning, _)| bytes.starts_with(beginning)).map(|(_, media_type)| *media_type),
    }
}

/// The type of an archive, from the names of its first members. A document may begin with members that all have.
fn archive(bytes: &[u8]) -> &'static str {
    let mut rest = bytes;
    while rest.starts_with(MEMBER) {
        let Some((name, after)) = member(rest) else { break };
        if let Some((_, media_type)) = MEMBERS.iter().find(|(beginning, _)| name.starts_with(beginning)) {
            return media_type;
        }
        rest = after;
    }
    "application/zip"
}

/// The name of the member that the bytes begin with, and the bytes from the next one on.
fn member(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_end = NAME_AT + little(bytes, NAME_LENGTH_AT, 2)? as usize;
    let name = bytes.get(NAME_AT..name_end)?;
    let content = bytes.get(name_end + little(bytes, EXTRA_LENGTH_AT, 2)? as usize..).unwrap_or_default();
    let length = if little(bytes, FLAGS_AT, 2)? & SIZE_IS_BEHIND == 0 {
        little(bytes, SIZE_AT, 4)? as usize
    } else {
        content.windows(MEMBER.len()).position(|window| window == MEMBER).unwrap_or(content.len())
    };
    Some((name, content.get(length..).unwrap_or_default()))
}
