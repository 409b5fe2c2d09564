//! Sanitizes text from a policy for people and logs.

lro_contract::sanitizing!(super::bindings::lro::filter::types);
