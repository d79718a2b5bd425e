"""`python -m caravan.threeways`: one scenario at three levels."""

import typer

from caravan.threeways.compare import main

if __name__ == "__main__":
    typer.run(main)
