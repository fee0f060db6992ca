"""triolog's public names, loaded lazily: importing `actors` alone imports no Trio."""
