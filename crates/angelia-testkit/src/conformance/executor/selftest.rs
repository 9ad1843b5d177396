//! The checks of `angelia selftest`, as checks of this suite.

use angelia_executors::selftest::CHECKS;

use super::ExecutorFixture;

macro_rules! selftest_checks {
    ($($name:ident => $id:literal),* $(,)?) => {
        $(
            pub async fn $name(fixture: &impl ExecutorFixture) {
                run(fixture, $id).await;
            }
        )*

        #[cfg(test)]
        const IDS: &[&str] = &[$($id),*];
    };
}

selftest_checks! {
    selftest_streamed_answer => "streamed_answer",
    selftest_approval => "approval",
    selftest_edit_diff => "edit_diff",
    selftest_interrupt => "interrupt",
    selftest_resume => "resume",
    selftest_model_error => "model_error",
    selftest_usage => "usage",
    selftest_caller_tools => "caller_tools",
    selftest_sealed_model_mode => "sealed_model_mode",
}

async fn run(fixture: &impl ExecutorFixture, id: &str) {
    let check = CHECKS.iter().find(|check| check.id == id).unwrap();
    (check.run)(fixture.agent()).await.unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_in_the_suite() {
        assert_eq!(IDS, CHECKS.map(|check| check.id));
    }
}
