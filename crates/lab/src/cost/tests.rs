mod papers;
