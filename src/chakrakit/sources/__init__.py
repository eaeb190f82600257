"""Where traces come from: profilers and frameworks that recorded a real run."""
