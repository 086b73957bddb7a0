"""The pages. What imports gradio from here on gets it without what no page uses."""

from ui.gradio_import import install

install()
