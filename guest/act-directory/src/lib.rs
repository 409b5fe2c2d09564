//! Preopens the directory of offloads alone, a component of the world `lro-act-directory`.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Directory;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http", "../../wit/act"],
        world: "lro:act/lro-act-directory",
        generate_all,
    });

    export!(Directory);
}

use bindings::exports::wasi::filesystem0_2_12::preopens::Guest;
use bindings::lro::act::settings;
use bindings::wasi::filesystem0_2_12::preopens::get_directories;
use bindings::wasi::filesystem0_2_12::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

struct Directory;

impl Guest for Directory {
    /// The directory as `/`. None where it is missing, or not allowed.
    fn get_directories() -> Vec<(Descriptor, String)> {
        let path = settings::directory();
        let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
        let opened = get_directories().into_iter().find_map(|(preopened, name)| {
            let relative = path.strip_prefix(name.as_str())?.trim_matches('/');
            preopened.open_at(PathFlags::empty(), relative, OpenFlags::DIRECTORY, flags).ok()
        });
        opened.map(|directory| (directory, "/".to_owned())).into_iter().collect()
    }
}
