//! The memory allocator of the program.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;

/// What a request brings is often let go by another thread, the store's or the rail's; mimalloc is made for that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The option `purge_delay` of mimalloc, which its crate has no name for.
const PURGE_DELAY: mi_option_t = 15;

/// Memory that nobody has used for so long goes back to the system as soon as a thread frees some more. By default it
/// is a second.
const KEPT_FOR_MS: c_long = 10;

/// Lets free memory go back to the system soon, so that little of a load stays behind.
///
/// Called before there is a second thread.
pub(crate) fn give_back_soon() {
    // SAFETY: no other thread exists that could read or write options now. Where the environment has set the option
    // (`MIMALLOC_PURGE_DELAY`) it stays as it is.
    #[expect(unsafe_code, reason = "mimalloc's options have no safe interface")]
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_FOR_MS);
    }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn the_number_of_the_option_is_that_of_the_one_whose_default_is_a_second() {
        // SAFETY: options are only read in the process of the tests.
        #[expect(unsafe_code, reason = "mimalloc's options have no safe interface")]
        let kept_for = unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(kept_for, 1000);
    }
}
