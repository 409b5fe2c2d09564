//! The components that this crate is built with.

/// The bytes of a component: a program has them once, wherever it names the constant. Of a constant that includes them itself,
/// each part of a program that names it would have a copy.
macro_rules! component {
    ($name:literal) => {{
        static BYTES: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/", $name)).len()] =
            *include_bytes!(concat!(env!("OUT_DIR"), "/", $name));
        &BYTES
    }};
}
