//! A client definition file: anything is either refused with a reason or can be used.

#![no_main]

use std::path::Component;

use libfuzzer_sys::fuzz_target;
use shorefast_engine::definition;

fuzz_target!(|text: &str| {
    match definition::parse(text) {
        Err(problem) => assert!(!problem.trim().is_empty(), "refused without a reason"),
        Ok(definition) => {
            assert!(!definition.types.is_empty());
            assert!(definition.command.first().is_some_and(|helper| !helper.is_empty()));
            assert!(definition.command.iter().any(|word| word.contains("{target}")));
            assert!(definition.mounts > 0);
            for path in definition.provide.keys() {
                assert!(path.is_absolute() && path.components().all(|part| part != Component::ParentDir), "{path:?} climbs");
            }
            let limits = definition.limits;
            assert!(limits.memory_bytes != Some(0));
            assert!(limits.processors.is_none_or(|count| count.is_finite() && count > 0.0));
            assert!(definition.scratch_bytes > 0);
        }
    }
});
