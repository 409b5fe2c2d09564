//! Policies of version 0.1.0: the call and the answers of the newest version, converted.

use wasmtime::component::Resource;

use super::PayloadReader;
use super::bindings::lro::filter::types::HostToolResult;
use super::state::CallState;

lro_contract::conversions_v0_1!(super::bindings::lro::filter::types, super::bindings::v0_1::lro::filter::types);

impl old::Host for CallState {}

impl old::HostToolResult for CallState {
    fn parts(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<Vec<old::Part>> {
        Ok(HostToolResult::parts(self, payload)?.to())
    }

    fn read_text(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<String, old::ReadError>> {
        Ok(HostToolResult::read_text(self, payload, part, offset, length)?.map_err(To::to))
    }

    fn read_bytes(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, old::ReadError>> {
        Ok(HostToolResult::read_bytes(self, payload, part, offset, length)?.map_err(To::to))
    }

    fn drop(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<()> {
        HostToolResult::drop(self, payload)
    }
}
