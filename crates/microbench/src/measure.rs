use std::hint::black_box;

/// Rounds before the one that counts: buffers have grown, the allocator has its lists, symbols are bound.
const WARM_UP_ROUNDS: usize = 3;

/// Does `work` with every input, first in rounds that do not count and then in one that does. Gives the number of
/// inputs in that round.
///
/// Inputs are made outside of what is counted; what `work` lets go of is inside, since a broker has to as well.
pub(crate) fn measure<I>(mut inputs: impl FnMut() -> Vec<I>, mut work: impl FnMut(I)) -> usize {
    for _ in 0..WARM_UP_ROUNDS {
        inputs().into_iter().for_each(&mut work);
    }
    let inputs = inputs();
    let operations = inputs.len();
    let mut inputs = inputs.into_iter();
    counted_by_callgrind(&mut || inputs.by_ref().for_each(&mut work));
    operations
}

/// The instructions between the call of this function and its return are those that are counted. xtask finds it by its
/// name.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut()) {
    work();
    // Without something to do afterwards this would be a jump into `work`, and callgrind would not see a return.
    black_box(work);
}
