//! How many calls have room in the address space, and how they use it.

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::engine::{CONCURRENT_CALLS_MAX, HOST_STACK_BYTES, STACK_BYTES_MAX};
use super::permits::STOCK_MAX;

/// Maximum linear memory of a pooled instance, in bytes, whatever the limits of the call.
const POOLED_MEMORY_BYTES_MAX: usize = 1 << 30;

/// Maximum elements of a pooled table.
const POOLED_TABLE_ELEMENTS_MAX: usize = 100_000;

/// Maximum core instances and tables of one component. The pool reserves as many for every concurrent call, so that no
/// policy can use up those of others.
const INSTANCES_MAX: u32 = 16;
pub(super) const TABLES_MAX: u32 = 8;

/// Maximum linear memories of one component. The pool has one for every permit, and a call takes a permit for each of
/// its memories.
pub(super) const MEMORIES_MAX: u32 = 4;

/// Memory of a finished call that is reset and reused, in bytes, instead of being returned to the system and faulted in
/// again. It halves the cost of a small result where the system reports which pages were written (Linux 6.7 and later);
/// elsewhere resetting all of it would cost more than it saves.
const RESIDENT_BYTES: usize = 4 << 20;

/// Part of a finished call's stack that is zeroed in place; the rest, which few calls touch, is returned to the system.
const RESIDENT_STACK_BYTES: usize = 32 << 10;

/// Address space of a guarded memory, in bytes: what 32 bits reach, and a guard for offsets.
const GUARDED_BYTES: u64 = (4 << 30) + (32 << 20);

/// Address space that a checked memory reserves, in bytes: the default limit of memory. One that grows beyond it moves.
const CHECKED_BYTES: u64 = 64 << 20;

/// Address space by which a checked memory that moves exceeds what it needs, in bytes.
const CHECKED_GROWTH_BYTES: u64 = 16 << 20;

/// Guard of a checked memory, in bytes.
const CHECKED_GUARD_BYTES: u64 = 64 << 10;

/// Numbers of concurrent calls of pools to try if there is no room for all, the largest first.
const SMALLER_POOLS: [u32; 2] = [64, 16];

/// Minimum number of concurrent calls: as many as one component may have memories, as it takes a permit for each.
const CALLS_MIN: u32 = MEMORIES_MAX;

/// How compiled code stays within its memory. Code for one does not run with the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// Four GiB of address space are reserved for every memory, so that the processor reports what is out of bounds.
    Guarded,
    /// The code checks each access, for systems with little address space.
    Checked,
}

impl Addressing {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Guarded, Self::Checked];

    /// Its name on the command line of a compiling child.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::Checked => "checked",
        }
    }

    pub(super) fn configure(self, config: &mut Config) {
        if self == Self::Checked {
            config.memory_reservation(CHECKED_BYTES).memory_reservation_for_growth(CHECKED_GROWTH_BYTES);
            config.memory_guard_size(CHECKED_GUARD_BYTES).guard_before_linear_memory(false);
        }
    }
}

/// Room for concurrent calls. Instances in a pool are guarded; without a pool every call maps memory, which is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Number of permits for calls.
    pub(super) calls: u32,
    /// Number of permits for instances in stock, in addition.
    pub(super) stock: u32,
    pub(super) is_pooled: bool,
}

impl Room {
    /// What to try in turn for so many calls, at most [`CONCURRENT_CALLS_MAX`]: pools that leave half of the address space
    /// to everything else, and no pool at last.
    pub(super) fn candidates(calls: u32, address_space: Option<u64>) -> Vec<Self> {
        let calls = calls.clamp(CALLS_MIN, CONCURRENT_CALLS_MAX);
        let half = address_space.map_or(u64::MAX, |bytes| bytes / 2);
        let sizes = [calls].into_iter().chain(SMALLER_POOLS.into_iter().filter(|smaller| *smaller < calls));
        let pools = sizes.map(|calls| Self { calls, stock: (calls / 8).clamp(CALLS_MIN, STOCK_MAX), is_pooled: true });
        let mut candidates: Vec<_> = pools.filter(|pool| pool.bytes() <= half).collect();
        let per_call = CHECKED_BYTES + CHECKED_GUARD_BYTES + stack_bytes();
        let unpooled = u32::try_from(half / per_call).unwrap_or(u32::MAX).clamp(CALLS_MIN, calls);
        candidates.push(Self { calls: unpooled, stock: 0, is_pooled: false });
        candidates
    }

    /// Address space of the pool.
    fn bytes(&self) -> u64 {
        let tables = u64::from(TABLES_MAX) * POOLED_TABLE_ELEMENTS_MAX as u64 * size_of::<usize>() as u64;
        u64::from(self.instances()) * (GUARDED_BYTES + tables + stack_bytes())
    }

    fn instances(&self) -> u32 {
        self.calls + self.stock
    }

    pub(super) fn addressing(&self) -> Addressing {
        if self.is_pooled { Addressing::Guarded } else { Addressing::Checked }
    }

    pub(super) fn allocation(&self) -> InstanceAllocationStrategy {
        if !self.is_pooled {
            return InstanceAllocationStrategy::OnDemand;
        }
        let instances = self.instances();
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(instances)
            .total_stacks(instances)
            .async_stack_keep_resident(RESIDENT_STACK_BYTES)
            .max_core_instances_per_component(INSTANCES_MAX)
            .total_core_instances(instances * INSTANCES_MAX)
            .max_memories_per_component(MEMORIES_MAX)
            .total_memories(instances)
            .max_tables_per_component(TABLES_MAX)
            .total_tables(instances * TABLES_MAX)
            .max_memory_size(POOLED_MEMORY_BYTES_MAX)
            .table_elements(POOLED_TABLE_ELEMENTS_MAX);
        if PoolingAllocationConfig::is_pagemap_scan_available() {
            pool.pagemap_scan(Enabled::Yes)
                .linear_memory_keep_resident(RESIDENT_BYTES)
                .table_keep_resident(RESIDENT_BYTES);
        }
        pool.into()
    }
}

fn stack_bytes() -> u64 {
    (STACK_BYTES_MAX + HOST_STACK_BYTES) as u64
}
