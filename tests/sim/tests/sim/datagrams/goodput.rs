//! How much of a link connections use. Goodput is bytes of tensors that an application took, as a share of all bytes of
//! UDP payload that the link carries meanwhile: of 1,472 of these, 38 are the packet's own, and records and frames have
//! some of the rest, so that 97 % is all there is.

use sealane_types::CongestionChoice;

use super::bench::goodput;

#[test]
fn losses_at_random_cost_bbr_little_and_auto_finds_out() {
    println!("loss %   BBR ‰   Auto ‰   CUBIC ‰ of the link");
    for percent in [0, 1, 3, 5, 10] {
        let of = |congestion| goodput(congestion, 2, 4, |path| path.lost_permille = 10 * percent);
        let (bbr, auto, cubic) =
            (of(CongestionChoice::Bbr), of(CongestionChoice::Auto), of(CongestionChoice::Cubic));
        println!("{percent:6}   {bbr:5}   {auto:6}   {cubic:7}");
        assert!(cubic > 0);
        if percent <= 1 {
            assert!(bbr >= 900 && auto >= 900, "{bbr} and {auto} ‰ at {percent} %");
        }
        assert!(percent > 0 || cubic >= 900, "{cubic} ‰ without losses");
    }
}
