// Runs when everything above it is there.

readTraces()
  .then((traces) => {
    new App(traces, readDiff());
    document.body.dataset.ready = "true";
  })
  .catch((error) => {
    document.body.dataset.ready = "failed";
    byId("panes").replaceChildren(element("p", { class: "hint", role: "alert" }, `This page cannot be shown: ${error.message}`));
    throw error;
  });
