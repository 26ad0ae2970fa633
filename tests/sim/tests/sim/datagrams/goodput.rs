//! How much of a link connections use. Goodput is bytes of tensors that an application took, as a share of all bytes of
//! UDP payload that the link carries meanwhile: of 1,472 of these, 38 are the packet's own, and records and frames have
//! some of the rest, so that 97 % is all there is.

use sealane_protocol::datagram::Congestion;

use super::bench::goodput;

#[test]
fn losses_at_random_cost_the_model_of_the_path_little() {
    println!("loss %   Model ‰   CUBIC ‰ of the link");
    for percent in [0, 1, 3, 5, 10] {
        let of = |congestion| goodput(congestion, 2, 4, |path| path.lost_permille = 10 * percent);
        let (model, cubic) = (of(Congestion::Model), of(Congestion::Cubic));
        println!("{percent:6}   {model:7}   {cubic:7}");
        assert!(cubic > 0);
        if percent <= 1 {
            assert!(model >= 900, "{model} ‰ at {percent} %");
        }
        assert!(percent > 0 || cubic >= 900, "{cubic} ‰ without losses");
    }
}
