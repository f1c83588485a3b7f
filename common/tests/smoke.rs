//! smoke
use leasehold_common::body::{Body, TaskKind};
use leasehold_common::name::*;
use leasehold_common::policy::*;
use leasehold_common::record::*;
use leasehold_common::store::*;
use leasehold_common::transport::ConnectOptions;
use std::time::Duration;

fn body(n: usize) -> Body {
    Body {
        name: TaskName::new("t").unwrap(),
        kind: TaskKind::Handler,
        payload: vec![7; n],
        policy: Policy::default(),
        priority: Priority::Normal,
        owner: None,
        headers: Default::default(),
    }
}
#[tokio::test]
async fn smoke() {
    let s = Store::open("redis://127.0.0.1:7399", Namespace::default(), ConnectOptions::default()).unwrap();
    let q = QueueName::new(format!("q{}", std::process::id())).unwrap();
    let tasks: Vec<NewTask> = (0..10)
        .map(|i| NewTask {
            id: TaskId::new(format!("t{i}")).unwrap(),
            body: body(if i == 3 { 5000 } else { 100 }),
            when: if i == 9 { When::After(Duration::from_millis(300)) } else { When::Now },
        })
        .collect();
    println!("{:?}", s.enqueue(&q, &tasks).await.unwrap());
    println!("{:?}", s.enqueue(&q, &tasks[..2]).await.unwrap());
    let inc = Incarnation::fresh();
    let mut req = ClaimRequest {
        incarnation: inc.clone(),
        worker: WorkerName::new("w").unwrap(),
        number: 1,
        want: 4,
        woken: false,
        closing: false,
    };
    let ClaimAnswer::Claimed(c) = s.claim(&q, &req).await.unwrap() else { panic!() };
    println!("{:?}", c.tasks.iter().map(|t| (&t.id, &t.run, t.token, t.body.len())).collect::<Vec<_>>());
    let ClaimAnswer::Claimed(c2) = s.claim(&q, &req).await.unwrap() else { panic!() };
    assert_eq!(c.tasks, c2.tasks);
    let beats: Vec<Beat> = c.tasks.iter().map(|t| Beat { id: t.id.clone(), run: t.run.clone() }).collect();
    println!("{:?}", s.heartbeat(&q, &inc, &beats).await.unwrap());
    println!(
        "{:?}",
        s.progress(
            &q,
            &inc,
            &[Progress {
                id: c.tasks[0].id.clone(),
                run: c.tasks[0].run.clone(),
                number: 1,
                share: Some(0.5),
                message: "half".into()
            }]
        )
        .await
        .unwrap()
    );
    println!(
        "{:?}",
        s.append_log(
            &q,
            &inc,
            &[LogPiece {
                id: c.tasks[0].id.clone(),
                run: c.tasks[0].run.clone(),
                offset: 0,
                stream: OutputStream::Out,
                text: b"hi\n".to_vec()
            }]
        )
        .await
        .unwrap()
    );
    println!(
        "{:?}",
        s.abort(
            &q,
            &[
                AbortRequest::new(c.tasks[1].id.clone(), "me", "why"),
                AbortRequest::new(tasks[9].id.clone(), "me", "x"),
                AbortRequest::new(tasks[8].id.clone(), "me", "x")
            ]
        )
        .await
        .unwrap()
    );
    println!("{:?}", s.heartbeat(&q, &inc, &beats).await.unwrap());
    let f = |i: usize, o| Finish { id: c.tasks[i].id.clone(), run: c.tasks[i].run.clone(), outcome: o };
    let ends = vec![
        f(0, Outcome::Completed(vec![1, 2])),
        f(
            1,
            Outcome::Stopped {
                cause: StopCause::Abort,
                message: "killed".into(),
                detail: FailureDetail { exit_code: None, signal: Some(9) },
            },
        ),
        f(
            2,
            Outcome::Failed {
                kind: FailureKind::Error,
                message: "oops".into(),
                retry: RetryAdvice::Policy,
                detail: Default::default(),
            },
        ),
    ];
    req.number = 2;
    req.want = 2;
    println!("{:?}", s.finish_and_claim(&q, &inc, &ends, &req).await);
    println!("{:?}", s.finish(&q, &inc, &ends).await);
    for t in &tasks[..3] {
        println!("{:?}", s.detail(&q, &t.id).await.unwrap());
    }
    println!("{:?}", s.sweep(&q, 100).await.unwrap());
    println!("{:?}", s.cleanup(&q, 100).await.unwrap());
    let rev = s.record(&q, &tasks[0].id).await.unwrap().unwrap().rev;
    println!("{:?}", s.retry(&q, &[(tasks[0].id.clone(), rev)]).await.unwrap());
    println!("{:?}", s.retry(&q, &[(tasks[0].id.clone(), rev)]).await.unwrap());
    let rev = s.record(&q, &tasks[1].id).await.unwrap().unwrap().rev;
    println!("{:?}", s.delete(&q, &[(tasks[1].id.clone(), rev), (tasks[1].id.clone(), rev)]).await.unwrap());
    println!("{:?}", s.delete(&q, &[(tasks[1].id.clone(), rev)]).await.unwrap());
    println!("{:?}", s.inspect(&q, &tasks.iter().map(|t| t.id.clone()).collect::<Vec<_>>()).await.unwrap());
    for st in leasehold_common::state::TaskState::ALL {
        println!(
            "{st} {:?}",
            s.list(&q, st, None, 3).await.unwrap().tasks.iter().map(|t| t.id.clone()).collect::<Vec<_>>()
        );
    }
}
