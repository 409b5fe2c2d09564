//! A minimal image and sound, and an embedded resource.

use rmcp::model::{ContentBlock, ResourceContents};

/// One red pixel, as PNG in base64.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

/// The media type of [`PIXEL`].
pub(crate) const PIXEL_TYPE: &str = "image/png";

/// One millisecond of silence, as WAV in base64.
const SILENCE: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

pub(crate) fn image() -> ContentBlock {
    ContentBlock::image(PIXEL, PIXEL_TYPE)
}

pub(crate) fn audio() -> ContentBlock {
    ContentBlock::audio(SILENCE, "audio/wav")
}

/// An embedded text resource.
pub(crate) fn embedded(uri: &str, media_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(media_type))
}
