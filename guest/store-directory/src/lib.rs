//! A store in the directory that the host preopens, a component of the world `lro-store-directory`.
//!
//! The filter gets a staging directory for each call that writes, `.staging-TIME-NUMBER`, as if the host had preopened it. One rename
//! makes it `TENANT/ID`. Instances may share a directory: names are random, and a directory that exists is never taken. The reader
//! gets the directories that it was lent, read-only, in the same way.
//!
//! | module | what it does |
//! |---|---|
//! | `room` | removes what has expired, and the oldest where there is no room |
//! | `key` | the key that signs cursors |
#![cfg(target_arch = "wasm32")]

mod key;
mod room;

use std::cell::RefCell;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Store;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http"],
        world: "lro:http/lro-store-directory",
        generate_all,
    });

    export!(Store);
}

use bindings::exports::lro::http::store::{self, Bounds};
use bindings::exports::wasi::filesystem0_2_12::preopens;
use bindings::wasi::filesystem0_2_12::preopens::get_directories;
use bindings::wasi::filesystem0_2_12::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State::Idle) };
}

/// What the filter and the reader get as preopened directories.
enum State {
    /// An empty directory, when it is asked for.
    Idle,
    /// The staging directory of the last call.
    Staged(String),
    /// These offloads of a tenant, for the reader.
    Lent { tenant: String, handles: Vec<String> },
}

struct Store;

impl preopens::Guest for Store {
    /// What was lent, or a new staging directory; none if there is no directory to make it in.
    fn get_directories() -> Vec<(Descriptor, String)> {
        if let Some(lent) = STATE.with_borrow(lent) {
            return lent;
        }
        <Self as store::Guest>::discard();
        let name = room::staging_name();
        match root().ok_or(ErrorCode::NoEntry).and_then(|root| staged(&root, &name)) {
            Ok(directory) => {
                STATE.set(State::Staged(name));
                vec![(directory, "/".to_owned())]
            }
            Err(_) => Vec::new(),
        }
    }
}

impl store::Guest for Store {
    fn publish(tenant: String, id: String, bounds: Bounds) -> Result<(), String> {
        let root = root().ok_or("no directory is preopened")?;
        let State::Staged(name) = STATE.replace(State::Idle) else {
            return Err("there is nothing to publish".to_owned());
        };
        match root.create_directory_at(&tenant) {
            Ok(()) | Err(ErrorCode::Exist) => {}
            Err(code) => return Err(format!("the directory of the tenant `{tenant}` cannot be made: {code}")),
        }
        let published = room::made(&root, &tenant, &name, &bounds).and_then(|()| {
            let published = root.rename_at(&name, &root, &format!("{tenant}/{id}"));
            published.map_err(|code| format!("the files cannot be published: {code}"))
        });
        if published.is_err() {
            room::remove(&root, &name);
        }
        published
    }

    fn discard() {
        // The filter has removed its files. A directory that still has some stays until it is old.
        if let (State::Staged(name), Some(root)) = (STATE.replace(State::Idle), root()) {
            let _ = root.remove_directory_at(&name);
        }
    }

    fn lend(tenant: String, handles: Vec<String>) -> Vec<String> {
        <Self as store::Guest>::discard();
        STATE.set(State::Lent { tenant, handles });
        let lent = STATE.with_borrow(lent).unwrap_or_default();
        lent.into_iter().map(|(_, handle)| handle).collect()
    }

    fn cursor_key() -> Result<Vec<u8>, String> {
        key::of(&root().ok_or("no directory is preopened")?)
    }
}

/// The directories that are lent; `None` if the last call is not one of the reader.
fn lent(state: &State) -> Option<Vec<(Descriptor, String)>> {
    let State::Lent { tenant, handles } = state else { return None };
    let Some(root) = root() else { return Some(Vec::new()) };
    let open = |handle: &String| {
        let directory = opened(&root, &format!("{tenant}/{handle}"), DescriptorFlags::READ).ok()?;
        Some((directory, handle.clone()))
    };
    Some(handles.iter().filter_map(open).collect())
}

/// The first directory that the host preopens.
fn root() -> Option<Descriptor> {
    get_directories().into_iter().next().map(|(directory, _)| directory)
}

fn staged(root: &Descriptor, name: &str) -> Result<Descriptor, ErrorCode> {
    room::sweep_staging(root);
    root.create_directory_at(name)?;
    opened(root, name, DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY)
}

/// Opens a directory, which is no link.
fn opened(root: &Descriptor, path: &str, flags: DescriptorFlags) -> Result<Descriptor, ErrorCode> {
    root.open_at(PathFlags::empty(), path, OpenFlags::DIRECTORY, flags)
}
