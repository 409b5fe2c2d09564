//! Without the feature `object-store`, there are no buckets.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::bucket::{Found, Object, Upload, Version};
use super::cipher::ObjectCipher;
use super::directory::Directory;
use super::{BucketConfig, StoreError};

pub(super) const TRANSFERS_AT_ONCE: usize = 1;
pub(super) const PART_BYTES: u64 = 8 << 20;

/// Never made.
#[derive(Debug)]
pub(super) enum Objects {}

/// Never made.
pub(super) struct Parts;

impl Objects {
    pub(super) fn open(config: &BucketConfig) -> Result<Self, StoreError> {
        let source = "lro-host was built without the feature `object-store`".into();
        Err(StoreError::bucket("open", PathBuf::from(&config.url), source))
    }

    pub(super) fn place(&self, _: &str) -> PathBuf {
        match *self {}
    }

    pub(super) fn get(&self, _: &str, _: u64) -> Result<Vec<u8>, StoreError> {
        match *self {}
    }

    pub(super) fn find(&self, _: &str, _: u64) -> Result<Found, StoreError> {
        match *self {}
    }

    pub(super) fn first(&self, _: &str, _: u64) -> Result<Vec<u8>, StoreError> {
        match *self {}
    }

    pub(super) fn range(&self, _: &str, _: Range<u64>) -> Result<Vec<u8>, StoreError> {
        match *self {}
    }

    pub(super) fn put(&self, _: &str, _: Vec<u8>) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn put_if(&self, _: &str, _: Vec<u8>, _: Option<&Version>) -> Result<Option<Version>, StoreError> {
        match *self {}
    }

    pub(super) fn parts(&self, _: &str) -> Parts {
        match *self {}
    }

    pub(super) fn send(&self, _: &mut Parts, _: u64, _: &Arc<File>, _: Option<&Arc<ObjectCipher>>) -> bool {
        match *self {}
    }

    pub(super) fn upload(&self, _: Directory, _: Vec<Upload>) -> Result<Vec<Vec<u64>>, StoreError> {
        match *self {}
    }

    pub(super) fn download(
        &self,
        _: &str,
        _: u64,
        _: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn list(&self, _: &str, _: impl FnMut(Object) -> Result<(), StoreError>) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn delete(&self, _: &[String]) -> Result<(), StoreError> {
        match *self {}
    }
}
