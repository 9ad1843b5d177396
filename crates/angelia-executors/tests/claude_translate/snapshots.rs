//! Every recording of both versions, as events.

use super::driver::{all_recordings, format_outcomes, run};

#[test]
fn every_recording_reads_as_before() {
    for fixture in all_recordings() {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_snapshot_path(format!("snapshots/{}", fixture.version));
        settings.bind(|| {
            insta::assert_snapshot!(fixture.name.as_str(), format_outcomes(&run(&fixture)));
        });
    }
}
