"""The faults of ``plant_faults.py``, which takes minutes, can all still be planted."""

import plant_faults


def test_every_fault_can_be_planted():
    assert len(plant_faults.FAULTS) >= 50
    assert plant_faults.unplantable() == []
