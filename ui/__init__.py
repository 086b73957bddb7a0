"""The pages. Importing this package first makes `import gradio` skip modules that no page uses."""

from ui.gradio_import import install

install()
