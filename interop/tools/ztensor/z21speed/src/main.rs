// The work of interop/ztensor/speed.sh by the ztensor crate: z21speed VERB ARGUMENT... prints the wall clock and the processor time
// of the best of some rounds, in nanoseconds. Reading the input into memory is not part of it.
use std::time::Instant;
use ztensor::{DType, Source, Writer};

extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn processor() -> i64 {
    let mut t = [0i64; 2];
    unsafe { clock_gettime(2, &mut t) }; // CLOCK_PROCESS_CPUTIME_ID
    t[0] * 1_000_000_000 + t[1]
}

fn best(work: impl FnMut()) {
    best_of(|| (), work)
}

fn best_of(mut prepare: impl FnMut(), mut work: impl FnMut()) {
    let (mut wall, mut cpu) = (i64::MAX, i64::MAX);
    for _ in 0..NUMBER {
        prepare();
        let (from, used) = (Instant::now(), processor());
        work();
        wall = wall.min(from.elapsed().as_nanos() as i64);
        cpu = cpu.min(processor() - used);
    }
    println!("{wall} {cpu}");
}

const NUMBER: usize = 3; // rounds

fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "list" => best(|| {
            let s = Source::open(&a[2]).unwrap();
            let n: usize = s.tensors().map(|t| t.shape().len() + t.name().len() + t.data().unwrap().nbytes() as usize).sum();
            assert!(n > 0);
        }),
        "verify" => best(|| {
            let s = Source::open(&a[2]).unwrap();
            for t in s.tensors() {
                t.verify().unwrap();
            }
        }),
        "write" | "encode" => {
            let data = std::fs::read(&a[2]).unwrap();
            let size: usize = a[4].parse().unwrap();
            let encode = a[1] == "encode";
            best_of(|| drop(std::fs::remove_file(&a[3])), || {
                let mut w = Writer::options().canonical(!encode).create(&a[3]).unwrap();
                for (i, part) in data.chunks(size).enumerate() {
                    w.object(format!("tensor {i:05}"), |b| {
                        b.shape(vec![(part.len() / 2) as u64]).part("data", |p| {
                            let p = p.dtype(DType::BF16);
                            if encode { p.encoding("zt.zstd-seekable/1") } else { p }.bytes(part)
                        })
                    })
                    .unwrap();
                }
                w.finish().unwrap();
            })
        }
        "read" => best(|| {
            let s = Source::open(&a[2]).unwrap();
            for t in s.tensors() {
                std::hint::black_box(t.data().unwrap().bytes().unwrap().len());
            }
        }),
        _ => panic!("what is {}?", a[1]),
    }
}
