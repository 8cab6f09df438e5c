//! What the guide tells to do by hand (`docs/operations.md`), done.
use kafka_2pc::{
    broker::Profile,
    client::{Client, ClientConfig},
    ids::TransactionalId,
};

use crate::program::{Outcome, Stage, json_lines};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_is_written_again_from_the_checkpoint_before() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        let lines = |range: std::ops::Range<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
        let pipe = format!("pipe --topic t --input {} --state {}", input.display(), state.display());
        std::fs::write(&input, lines(0..100))?;
        assert_eq!(stage.run(&pipe).await?.code, Some(0));
        std::fs::write(&input, lines(0..200))?;
        let ran = stage.run(&format!("{pipe} --stop-after durable --json")).await?;
        let id = json_lines(&ran.out)[0]["transactional_id"].as_str().ok_or("no id")?.to_owned();
        // Somebody else takes the id over, which aborts what is prepared under it.
        let rival = Client::new(ClientConfig::new(&stage.broker.bootstrap())?);
        rival.transactional_producer(TransactionalId::new(id.as_str())).init().await?;
        for _ in 0..2 {
            let ran = stage.run(&pipe).await?;
            assert_eq!(ran.code, Some(3), "{ran:?}");
            assert!(ran.err.contains("LOST") && ran.err.contains("(100 records)"), "{ran:?}");
        }
        let kept = std::fs::read_dir(&state)?.collect::<Result<Vec<_>, _>>()?;
        let newest = kept.iter().map(|file| file.path()).filter(|path| path.is_file()).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-"))
        });
        std::fs::rename(newest.max().ok_or("no checkpoint")?, stage.path("aside"))?;
        let ran = stage.run(&pipe).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(stage.run("cat --topic t --until-end").await?.out, lines(0..200));
    }
    Ok(())
}
