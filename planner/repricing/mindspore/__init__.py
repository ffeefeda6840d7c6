"""What MindSpore makes of a plan: from its strategy checkpoint alone, and as it compiled it."""
