import pytest

from tests.data_.machines_page import PAGE, machines_page

pytestmark = pytest.mark.fast


@pytest.mark.slow
def test_the_page_of_all_numbers_is_that_of_the_data() -> None:
    assert PAGE.read_text(encoding="utf-8") == machines_page(), "run `make docs`"


def test_the_page_has_every_chip_and_says_what_is_assumed() -> None:
    page = machines_page()
    assert "| `ascend_910a` | peak_matmul.float16 256 TFLOP/s" in page.replace(
        "peak_matmul.float32 4.1 TFLOP/s; ", ""
    )
    assert "| `atlas_800_9000` | shared.pcie_cross.bandwidth 64 GB/s" in page
    assert "| HC31 | Hot Chips 31" in page
