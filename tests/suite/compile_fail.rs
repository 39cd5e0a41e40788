//! What must not compile. The expected messages lie next to the programs.

#[test]
fn ui() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
