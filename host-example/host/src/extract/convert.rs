//! Converts questions into types of the contract, and answers and errors from them.

lro_reading::question_conversions!(
    crate::sandbox::bindings::extraction::exports::lro::filter::lro_query,
    crate::sandbox::types
);
