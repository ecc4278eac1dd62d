// Runs after everything above it has been defined.

readTraces()
  .then((traces) => {
    new App(traces, readDiff());
    document.body.dataset.ready = "true";
  })
  .catch((error) => {
    document.body.dataset.ready = "failed";
    const message = `This page cannot be shown: ${error.message}`;
    byId("panes").replaceChildren(element("p", { class: "hint", role: "alert" }, message));
    throw error;
  });
