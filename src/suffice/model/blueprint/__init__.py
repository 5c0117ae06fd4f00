"""From the shape of a model to the header of its GGUF file, without the file.

``table`` lists the architectures, ``plain``, ``latent``, ``windowed`` and ``recurrent`` hold their layers, put together from
``parts``; ``keys`` holds the metadata in groups; ``header`` makes one header of them.
"""

from __future__ import annotations

from suffice.model.blueprint.header import blueprint_header, blueprint_refusal, supported_architectures

__all__ = ["blueprint_header", "blueprint_refusal", "supported_architectures"]
