//! A store in the directory that the host preopens, a component of the world `lro-store-directory`.
//!
//! The filter gets a staging directory for each call that writes, `.staging-NUMBER`, as if the host had preopened it. One rename makes it
//! `TENANT/ID`. Instances may share a directory: names are random, and a directory that exists is never taken.
#![cfg(target_arch = "wasm32")]

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

use bindings::exports::lro::http::store;
use bindings::exports::wasi::filesystem0_2_12::preopens;
use bindings::wasi::filesystem0_2_12::preopens::get_directories;
use bindings::wasi::filesystem0_2_12::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use bindings::wasi::random0_3_0::random::get_random_u64;

thread_local! {
    /// The staging directory of the last call.
    static STAGING: RefCell<Option<String>> = const { RefCell::new(None) };
}

struct Store;

impl preopens::Guest for Store {
    /// A new staging directory; none if there is no directory to make it in.
    fn get_directories() -> Vec<(Descriptor, String)> {
        <Self as store::Guest>::discard();
        let name = format!(".staging-{:016x}", get_random_u64());
        match root().ok_or(ErrorCode::NoEntry).and_then(|root| staged(&root, &name)) {
            Ok(directory) => {
                STAGING.set(Some(name));
                vec![(directory, "/".to_owned())]
            }
            Err(_) => Vec::new(),
        }
    }
}

impl store::Guest for Store {
    fn publish(tenant: String, id: String) -> Result<(), String> {
        let (root, name) =
            (root().ok_or("no directory is preopened")?, STAGING.take().ok_or("there is nothing to publish")?);
        match root.create_directory_at(&tenant) {
            Ok(()) | Err(ErrorCode::Exist) => {}
            Err(code) => return Err(format!("the directory of the tenant `{tenant}` cannot be made: {code}")),
        }
        let published = root.rename_at(&name, &root, &format!("{tenant}/{id}"));
        published.map_err(|code| format!("the files cannot be published: {code}"))
    }

    fn discard() {
        // The filter has removed its files. A directory that still has some shows what went wrong.
        if let (Some(name), Some(root)) = (STAGING.take(), root()) {
            let _ = root.remove_directory_at(&name);
        }
    }
}

/// The first directory that the host preopens.
fn root() -> Option<Descriptor> {
    get_directories().into_iter().next().map(|(directory, _)| directory)
}

fn staged(root: &Descriptor, name: &str) -> Result<Descriptor, ErrorCode> {
    root.create_directory_at(name)?;
    let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    root.open_at(PathFlags::empty(), name, OpenFlags::DIRECTORY, flags)
}
