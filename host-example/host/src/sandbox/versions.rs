//! Policies of all versions of `lro:filter` that this host runs, behind the calls of the newest one.

use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker, Resource};

use super::PayloadReader;
use super::bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
use super::bindings::lro::filter::types::{self, Call};
use super::bindings::{LroPolicy, LroPolicyPre, v0_1};
use super::state::CallState;
use super::v0_1::{To as _, plan as plan_v0_1};

/// The export of a policy of the newest version.
const EXPORT: &str = "lro:filter/lro-filter@0.2.0";

/// The export of a policy of version 0.1.0.
const EXPORT_V0_1: &str = "lro:filter/lro-filter@0.1.0";

/// Links the interface `types` of every version.
pub(super) fn add_types(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    v0_1::lro::filter::types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)
}

/// A policy with its imports resolved.
#[derive(Clone)]
pub(super) enum PolicyPre {
    /// Version 0.2.0.
    Newest(LroPolicyPre<CallState>),
    /// Version 0.1.0.
    V0_1(v0_1::LroPolicyPre<CallState>),
}

impl PolicyPre {
    /// # Errors
    /// When the component exports `lro-filter` in no version, or with other types than the contract.
    pub(super) fn new(component: &Component, pre: InstancePre<CallState>) -> wasmtime::Result<Self> {
        let exports = |name| component.get_export_index(None, name).is_some();
        Ok(match exports(EXPORT_V0_1) && !exports(EXPORT) {
            true => Self::V0_1(v0_1::LroPolicyPre::new(pre)?),
            false => Self::Newest(LroPolicyPre::new(pre)?),
        })
    }

    pub(super) fn engine(&self) -> &wasmtime::Engine {
        match self {
            Self::Newest(pre) => pre.engine(),
            Self::V0_1(pre) => pre.engine(),
        }
    }

    pub(super) async fn instantiate_async(&self, store: &mut Store<CallState>) -> wasmtime::Result<PolicyInstance> {
        Ok(match self {
            Self::Newest(pre) => PolicyInstance::Newest(pre.instantiate_async(store).await?),
            Self::V0_1(pre) => PolicyInstance::V0_1(pre.instantiate_async(store).await?),
        })
    }
}

/// An instance of a policy.
pub(super) enum PolicyInstance {
    /// Version 0.2.0.
    Newest(LroPolicy),
    /// Version 0.1.0.
    V0_1(v0_1::LroPolicy),
}

impl PolicyInstance {
    pub(super) async fn inspect_result(
        &self,
        store: &mut Store<CallState>,
        call: &Call,
        payload: Resource<PayloadReader>,
    ) -> wasmtime::Result<Result<Verdict, PolicyError>> {
        match self {
            Self::Newest(policy) => policy.lro_filter_lro_filter().call_inspect_result(store, call, payload).await,
            Self::V0_1(policy) => {
                let exported = policy.lro_filter_lro_filter();
                let answer = exported.call_inspect_result(store, &call.clone().to(), payload).await?;
                Ok(answer.map(|verdict| verdict.to()).map_err(|error| error.to()))
            }
        }
    }

    pub(super) async fn write_sections(
        &self,
        store: &mut Store<CallState>,
        call: &Call,
        payload: Resource<PayloadReader>,
        plan: &Plan,
    ) -> wasmtime::Result<Result<Descriptor, PolicyError>> {
        match self {
            Self::Newest(policy) => {
                policy.lro_filter_lro_filter().call_write_sections(store, call, payload, plan).await
            }
            Self::V0_1(policy) => {
                let exported = policy.lro_filter_lro_filter();
                let plan = match plan_v0_1(plan) {
                    Ok(plan) => plan,
                    Err(error) => return Ok(Err(error)),
                };
                let answer = exported.call_write_sections(store, &call.clone().to(), payload, &plan).await?;
                Ok(answer.map(|descriptor| descriptor.to()).map_err(|error| error.to()))
            }
        }
    }
}
