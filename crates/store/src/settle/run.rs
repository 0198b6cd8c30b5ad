//! The settling of some log files, all partitions together.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::staged::Staged;
use super::{Damaged, SettleError, checkpoint_of, sync_partition_dir};
use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, FileSystem, Open, replace_file, staged_name};
use crate::limits::SYNC_EACH_FILES_MAX;
use crate::partition::PartitionLog;
use crate::tail::Tail;

/// The settling of some log files.
pub(super) struct SettleRun<'a> {
    pub(super) disk: &'a dyn Disk,
    /// That of the data directory, asked for before anything is written.
    pub(super) file_system: Box<dyn FileSystem>,
    pub(super) partitions: Vec<Staged>,
    pub(super) damaged: Vec<Damaged>,
}

/// How many files of a partition a run writes to, as a rule.
const FILES_EACH: usize = 4;

/// Beyond so many new partitions, their first checkpoints are synced together: each would take five syncs.
const FIRST_CHECKPOINTS_EACH_MAX: usize = SYNC_EACH_FILES_MAX / 5;

impl SettleRun<'_> {
    /// Copies one partition's batches after the other, so that each is written in few large pieces however many
    /// there are.
    pub(super) fn copy(
        &mut self,
        last: u64,
        mut partitions: Vec<Arc<PartitionLog>>,
    ) -> Result<(), SettleError> {
        let waits = |partition: &Arc<PartitionLog>| {
            partition.state.lock().unsettled.front().is_some_and(|run| run.file.first <= last)
        };
        partitions.retain(waits);
        self.write_first_checkpoints(&partitions)?;
        let keeps_open = partitions.len() * FILES_EACH <= SYNC_EACH_FILES_MAX;
        for partition in partitions {
            let runs: Vec<_> = {
                let state = partition.state.lock();
                let runs = state.unsettled.iter().take_while(|run| run.file.first <= last);
                runs.map(|run| (Arc::clone(&run.file), run.entries.clone())).collect()
            };
            if runs.is_empty() {
                continue;
            }
            let Some(staged) = Staged::begin(self.disk, partition, keeps_open)? else { continue };
            self.partitions.push(staged);
            let Some(staged) = self.partitions.last_mut() else { continue };
            let disk = self.disk;
            for (file, entries) in &runs {
                if let Some((file, position)) = staged.copy(disk, file, entries)? {
                    // The others must not wait for it.
                    let partition = Arc::clone(&staged.partition);
                    self.damaged.push(Damaged { partition, file, position });
                    break;
                }
            }
            staged.flush(disk, true)?;
            staged.log = Vec::new();
        }
        Ok(())
    }

    /// Gives partitions that have no checkpoint one, durably, that says that nothing is settled.
    ///
    /// Without it, a restart after a power failure in the middle of the first settling would have to guess which of
    /// the segments were whole, and the log would not be asked for what they lack.
    fn write_first_checkpoints(&self, partitions: &[Arc<PartitionLog>]) -> io::Result<()> {
        let has_none = |partition: &&Arc<PartitionLog>| !partition.tail.lock().has_checkpoint;
        let new: Vec<_> = partitions.iter().filter(has_none).collect();
        let together = new.len() > FIRST_CHECKPOINTS_EACH_MAX;
        // A topic that is being removed must not get its directory back, and is not waited for.
        let for_each = |action: &dyn Fn(&PartitionLog, &mut Tail) -> io::Result<()>| {
            new.iter().try_for_each(|partition| {
                let mut tail = partition.tail.lock();
                if partition.is_removed() { Ok(()) } else { action(partition, &mut tail) }
            })
        };
        for_each(&|partition, tail| {
            self.disk.create_dir_all(&partition.dir)?;
            let path = Checkpoint::path(&partition.dir);
            let content = checkpoint_of(partition, tail).encode();
            if together {
                let file = self.disk.open(&staged_name(&path), Open::Replace)?;
                return file.write_at(0, &mut [IoSlice::new(&content)]);
            }
            replace_file(self.disk, &path, &content)?;
            sync_partition_dir(self.disk, &partition.dir)?;
            tail.has_checkpoint = true;
            Ok(())
        })?;
        if together {
            self.file_system.sync()?;
            for_each(&|partition, _| {
                let path = Checkpoint::path(&partition.dir);
                self.disk.rename(&staged_name(&path), &path)
            })?;
            self.file_system.sync()?;
            for_each(&|_, tail| {
                tail.has_checkpoint = true;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Makes all that was written durable, with the checkpoints that do not count yet.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        for staged in &mut self.partitions {
            staged.write_checkpoint(self.disk)?;
        }
        if self.syncs_together() {
            return self.file_system.sync();
        }
        self.touched().try_for_each(|staged| staged.unless_removed(self.sync_each(staged)))
    }

    fn sync_each(&self, staged: &Staged) -> io::Result<()> {
        staged.touched.sync_each()?;
        sync_partition_dir(self.disk, &staged.partition.dir)
    }

    /// Makes the new checkpoints count. The old ones keep their place on the disk for the next time: to make and remove a
    /// thousand files for each run is slow on some file systems.
    pub(super) fn replace_checkpoints(&self) -> io::Result<()> {
        self.touched().try_for_each(|staged| staged.replace_checkpoint(self.disk))?;
        if self.syncs_together() {
            return self.file_system.sync();
        }
        self.touched().try_for_each(|staged| staged.unless_removed(self.disk.sync_dir(&staged.partition.dir)))
    }

    fn touched(&self) -> impl Iterator<Item = &Staged> {
        self.partitions.iter().filter(|staged| !staged.touched.is_empty())
    }

    fn syncs_together(&self) -> bool {
        self.touched().any(|staged| !staged.touched.is_open())
            || self.touched().map(|staged| staged.touched.len()).sum::<usize>() > SYNC_EACH_FILES_MAX
    }

    /// Lets readers find the batches in the segments. Gives back the partitions that were touched.
    pub(super) fn publish(self, last: u64, confirmed: bool) -> Vec<Arc<PartitionLog>> {
        let mut touched = Vec::new();
        for staged in self.partitions {
            if !staged.touched.is_empty() {
                touched.push(Arc::clone(&staged.partition));
            }
            staged.publish(last, confirmed);
        }
        touched
    }

    pub(super) fn abandon(self) {
        for staged in self.partitions {
            staged.abandon();
        }
    }
}
