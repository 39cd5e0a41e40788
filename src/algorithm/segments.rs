//! A line cut into segments, each with an owner or with none.

use std::cmp::Ordering;

/// Half-open segments that cover a whole line: the first one begins at its low end, the last one
/// has no end.
#[derive(Clone, Debug)]
pub(super) struct Segments<T> {
    /// Where the second segment begins, the third and so on; rising.
    starts: Box<[T]>,
    /// One more than there are starts.
    owners: Box<[Option<u32>]>,
}

/// A half-open stretch of a line; an end that is `None` is open.
#[derive(Clone, Debug)]
pub(super) struct Stretch<T> {
    pub(super) from: Option<T>,
    pub(super) until: Option<T>,
    pub(super) owner: u32,
}

/// What is wrong with stretches, each given by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The end is not above the start.
    Empty(usize),
    /// The two have a point in common.
    Overlap(usize, usize),
}

impl<T: Ord + Clone> Segments<T> {
    /// Makes segments of stretches in any order. What no stretch covers has no owner.
    pub(super) fn build(stretches: &[Stretch<T>]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut order: Vec<usize> = Vec::with_capacity(stretches.len());
        for (i, stretch) in stretches.iter().enumerate() {
            match (&stretch.from, &stretch.until) {
                (Some(from), Some(until)) if from >= until => faults.push(Fault::Empty(i)),
                _ => order.push(i),
            }
        }
        // `None` sorts first, as the low end of the line must.
        order.sort_by(|a, b| stretches[*a].from.cmp(&stretches[*b].from));
        let mut starts: Vec<T> = Vec::new();
        let mut owners: Vec<Option<u32>> = vec![None];
        // The stretch that reaches highest so far.
        let mut top: Option<usize> = None;
        for i in order {
            let stretch = &stretches[i];
            if let Some(earlier) = top {
                let end = stretches[earlier].until.as_ref();
                match (end, &stretch.from) {
                    (Some(end), Some(from)) if end <= from => {}
                    _ => {
                        faults.push(Fault::Overlap(earlier, i));
                        let higher = match (end, &stretch.until) {
                            (None, _) => false,
                            (_, None) => true,
                            (Some(end), Some(until)) => until > end,
                        };
                        if higher {
                            top = Some(i);
                        }
                        continue;
                    }
                }
            }
            top = Some(i);
            match &stretch.from {
                None => owners[0] = Some(stretch.owner),
                Some(from) if starts.last() == Some(from) => {
                    if let Some(last) = owners.last_mut() {
                        *last = Some(stretch.owner);
                    }
                }
                Some(from) => {
                    starts.push(from.clone());
                    owners.push(Some(stretch.owner));
                }
            }
            if let Some(until) = &stretch.until {
                starts.push(until.clone());
                owners.push(None);
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut segments = Self {
            starts: starts.into_boxed_slice(),
            owners: owners.into_boxed_slice(),
        };
        segments.merge();
        Ok(segments)
    }

    /// Joins neighbours of one owner, so that equal lines have one form.
    fn merge(&mut self) {
        let mut starts = Vec::with_capacity(self.starts.len());
        let mut owners = vec![self.owners[0]];
        for (start, owner) in self.starts.iter().zip(&self.owners[1..]) {
            if owners.last() != Some(owner) {
                starts.push(start.clone());
                owners.push(*owner);
            }
        }
        self.starts = starts.into_boxed_slice();
        self.owners = owners.into_boxed_slice();
    }
}

impl<T> Segments<T> {
    /// The owner of a point, which `compare` tells apart from a start.
    #[inline]
    pub(super) fn owner(&self, compare: impl Fn(&T) -> Ordering) -> Option<usize> {
        let segment = self
            .starts
            .partition_point(|start| compare(start) != Ordering::Greater);
        // There is one owner more than there are starts.
        self.owners[segment].map(|owner| owner as usize)
    }

    /// The owner of the segment at the low end, or at the high end.
    pub(super) fn end(&self, high: bool) -> Option<usize> {
        let at = if high { self.owners.len() - 1 } else { 0 };
        self.owners[at].map(|owner| owner as usize)
    }

    /// All segments in order: where each begins and ends, and its owner.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<&T>, Option<&T>, Option<usize>)> {
        self.owners.iter().enumerate().map(|(i, owner)| {
            let from = i.checked_sub(1).and_then(|before| self.starts.get(before));
            let owner = owner.map(|owner| owner as usize);
            (from, self.starts.get(i), owner)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: Option<i64>, until: Option<i64>, owner: u32) -> Stretch<i64> {
        Stretch { from, until, owner }
    }

    fn owner(segments: &Segments<i64>, point: i64) -> Option<usize> {
        segments.owner(|start| start.cmp(&point))
    }

    #[test]
    fn neighbours_of_one_owner_are_one_segment() {
        let pieces = [
            stretch(Some(10), Some(20), 1),
            stretch(None, Some(10), 1),
            stretch(Some(30), None, 0),
        ];
        let segments = Segments::build(&pieces).expect("segments");
        assert_eq!(segments.starts, [20, 30].into());
        for (point, expected) in [
            (i64::MIN, Some(1)),
            (19, Some(1)),
            (20, None),
            (29, None),
            (30, Some(0)),
            (i64::MAX, Some(0)),
        ] {
            assert_eq!(owner(&segments, point), expected, "{point}");
        }
    }

    #[test]
    fn what_is_empty_or_overlaps_is_a_fault() {
        let pieces = [
            stretch(Some(0), Some(100), 0),
            stretch(Some(5), Some(5), 0),
            stretch(Some(50), Some(60), 1),
            stretch(Some(99), None, 1),
            stretch(Some(200), Some(300), 2),
        ];
        assert_eq!(
            Segments::build(&pieces).expect_err("faults"),
            [
                Fault::Empty(1),
                Fault::Overlap(0, 2),
                Fault::Overlap(0, 3),
                Fault::Overlap(3, 4)
            ]
        );
        let twice = [stretch(None, None, 0), stretch(None, Some(1), 0)];
        assert_eq!(
            Segments::build(&twice).expect_err("faults"),
            [Fault::Overlap(0, 1)]
        );
    }
}
