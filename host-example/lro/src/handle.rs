//! Offloads on the command line: by handle, by directory, or by one of their files.

use std::path::{Component, Path};

use anyhow::{Context, bail};
use clap::Args;
use lro_host::store::{Offload, Store, StoreError, TENANT_NAME_BYTES_MAX, Ulid, safe_name};
use lro_system::files::real_path;

/// Arguments that select an offload.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandleArguments {
    /// Handle of an offload, or the path of its directory or of a file in it
    #[arg(value_name = "HANDLE|PATH")]
    pub(crate) offload: String,
    /// Section, or name of its file; optional if there is only one
    #[arg(long, value_name = "NAME")]
    pub(crate) section: Option<String>,
    /// Tenant that owns the offload
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
}

impl HandleArguments {
    /// Finds the offload, and the section from `--section` or the path of a file.
    pub(crate) fn find(&self, store: &Store) -> anyhow::Result<(Offload, Option<String>)> {
        let (id, file) = match self.offload.parse::<Ulid>() {
            Ok(id) => (id, None),
            Err(_) => self.parse_path(store)?,
        };
        match store.find(&self.tenant, id) {
            Ok(offload) => Ok((offload, self.section.clone().or(file))),
            Err(StoreError::NotFound { .. }) => bail!(
                "there is no offload {id} of tenant `{}` (--tenant) in {} (--dir, MCP_LRO_DIR)",
                self.tenant,
                store.root().display()
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses a path: `{root}/{tenant}/{id}`, with or without a file. Paths outside the store are rejected.
    fn parse_path(&self, store: &Store) -> anyhow::Result<(Ulid, Option<String>)> {
        let given = Path::new(&self.offload);
        let what = || format!("`{}` is neither a handle nor the path of an offload", self.offload);
        let path = real_path(given).with_context(what)?;
        let root = store.root();
        let Ok(inside) = path.strip_prefix(root) else {
            bail!("{}: it is not in {} (--dir, MCP_LRO_DIR)", what(), root.display());
        };
        let mut steps = inside.components().filter_map(|step| match step {
            Component::Normal(step) => step.to_str(),
            _ => None,
        });
        let (tenant, id, file) = (steps.next(), steps.next(), steps.next());
        if tenant.is_some_and(|tenant| tenant != safe_name(&self.tenant, TENANT_NAME_BYTES_MAX)) {
            bail!("`{}` is not an offload of tenant `{}` (--tenant)", self.offload, self.tenant);
        }
        let id = id.and_then(|id| id.parse().ok()).with_context(what)?;
        Ok((id, file.map(str::to_owned)))
    }
}
