//! 256 types that stand for numbers.

use std::any::TypeId;

/// Stands for `16 * A + B`.
struct Number<const A: u8, const B: u8>;

fn id<const A: u8, const B: u8>() -> TypeId {
    TypeId::of::<Number<A, B>>()
}

macro_rules! row {
    ($a:literal) => {
        [
            id::<$a, 0>,
            id::<$a, 1>,
            id::<$a, 2>,
            id::<$a, 3>,
            id::<$a, 4>,
            id::<$a, 5>,
            id::<$a, 6>,
            id::<$a, 7>,
            id::<$a, 8>,
            id::<$a, 9>,
            id::<$a, 10>,
            id::<$a, 11>,
            id::<$a, 12>,
            id::<$a, 13>,
            id::<$a, 14>,
            id::<$a, 15>,
        ]
    };
}

static TYPES: [[fn() -> TypeId; 16]; 16] = [
    row!(0),
    row!(1),
    row!(2),
    row!(3),
    row!(4),
    row!(5),
    row!(6),
    row!(7),
    row!(8),
    row!(9),
    row!(10),
    row!(11),
    row!(12),
    row!(13),
    row!(14),
    row!(15),
];

/// The type of a number; no two have the same.
pub(super) fn type_of(number: u8) -> TypeId {
    TYPES[usize::from(number >> 4)][usize::from(number & 15)]()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn every_number_has_a_type_of_its_own() {
        let types: HashSet<_> = (0..=u8::MAX).map(super::type_of).collect();
        assert_eq!(types.len(), 256);
    }
}
