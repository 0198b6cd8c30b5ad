//! The messages and services that `build.rs` makes of our protobuf.

#![expect(clippy::enum_variant_names, unreachable_pub, unused_qualifications, reason = "made by a tool")]

pub(crate) mod mvccpb {
    tonic::include_proto!("mvccpb");
}

pub(crate) mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
