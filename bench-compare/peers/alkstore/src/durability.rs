//! A flush for each commit of alkstore on SQLite, which has no option for it.

use std::{
    ffi::{c_char, c_int},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use anyhow::ensure;
use harness::Result;
use rusqlite::{Connection, auto_extension::register_auto_extension, ffi};

/// The first connection that was opened: the store's one writer.
static WRITER: AtomicPtr<ffi::sqlite3> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" fn note(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    let _ = WRITER.compare_exchange(ptr::null_mut(), connection, Ordering::SeqCst, Ordering::SeqCst);
    ffi::SQLITE_OK
}

/// Notes the next connection that is opened.
pub(crate) fn watch() -> Result<()> {
    // SAFETY: `note` opens and closes no database and registers nothing.
    unsafe { register_auto_extension(note)? };
    Ok(())
}

/// Makes each commit of the noted connection wait for the disk. Nothing else may use it at this moment.
pub(crate) fn flush_each_commit() -> Result<()> {
    let writer = WRITER.load(Ordering::SeqCst);
    ensure!(!writer.is_null(), "no connection was opened");
    // SAFETY: the store that opened it lives, and has no work for it yet; this handle does not close it.
    let writer = unsafe { Connection::from_handle(writer)? };
    writer.execute_batch("PRAGMA synchronous = FULL")?;
    let synchronous: i64 = writer.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    ensure!(synchronous == 2, "the durability cannot be set");
    Ok(())
}
