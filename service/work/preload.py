"""What every task needs, imported before the first one, so that none pays for it."""

from service.work.tasks import exports, searches, simulations, sweeps, uploads, verifications

__all__ = ["exports", "searches", "simulations", "sweeps", "uploads", "verifications"]
