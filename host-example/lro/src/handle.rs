//! A published offload as the command line names it: by handle, by directory, or by one of its files.

use std::path::{Component, Path};

use anyhow::{Context, bail};
use clap::Args;
use lro_host::store::{Offload, Store, StoreError, TENANT_NAME_BYTES_MAX, Ulid, safe_name};

/// Which offload.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandleArguments {
    /// Handle of an offload, or the path of its directory or of a file in it
    #[arg(value_name = "HANDLE|PATH")]
    pub(crate) offload: String,
    /// Section, or name of its file; may be left out where there is only one
    #[arg(long, value_name = "NAME")]
    pub(crate) section: Option<String>,
    /// Whose offload it is
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) tenant: String,
}

impl HandleArguments {
    /// Finds the offload; also the section, which the path of a file tells too.
    pub(crate) fn find(&self, store: &Store) -> anyhow::Result<(Offload, Option<String>)> {
        let (id, file) = match self.offload.parse::<Ulid>() {
            Ok(id) => (id, None),
            Err(_) => self.of_path(store)?,
        };
        match store.find(&self.tenant, id) {
            Ok(offload) => Ok((offload, self.section.clone().or(file))),
            Err(StoreError::NotFound { .. }) => bail!(
                "there is no offload {id} of the tenant `{}` (--tenant) in {} (--dir, MCP_LRO_DIR)",
                self.tenant,
                store.root().display()
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a path apart: `{root}/{tenant}/{id}`, with or without a file. Nothing outside the store is looked at.
    fn of_path(&self, store: &Store) -> anyhow::Result<(Ulid, Option<String>)> {
        let given = Path::new(&self.offload);
        let what = || format!("`{}` is neither a handle nor the path of an offload", self.offload);
        let path = std::fs::canonicalize(given).with_context(what)?;
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
            bail!("`{}` is not an offload of the tenant `{}` (--tenant)", self.offload, self.tenant);
        }
        let id = id.and_then(|id| id.parse().ok()).with_context(what)?;
        Ok((id, file.map(str::to_owned)))
    }
}
